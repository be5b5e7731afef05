package shared

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"

	"codex-proxy/proxy/stored"
)

const (
	// moveEvery is how often a host looks whether its file has something.
	moveEvery = time.Second
	// movePause is the time between two responses, so that a move leaves the database to the clients.
	movePause = 10 * time.Millisecond
	// moving is the holder of a conversation that moves.
	moving = "move"
)

// mover moves the content of the file into the database: a tree of responses, and then the next one. While a tree is
// in both, nothing in it changes, as responses are never changed, and conversations are locked.
type mover struct {
	*both
	skip   int  // trees that could not be moved
	moved  int  // since the file was empty
	failed bool // the last failure is logged
}

// run moves until ctx ends.
func (m *mover) run(ctx context.Context) {
	for ctx.Err() == nil {
		moved, err := m.once(ctx)
		if err != nil && !away(err) && !errors.Is(err, stored.ErrLocked) && ctx.Err() == nil && !m.failed {
			m.logger.Error("responses cannot be moved into the database", "error", err)
			m.failed = true
		}
		if moved {
			continue
		}
		timer := time.NewTimer(moveEvery)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// once moves one tree, if there is one.
func (m *mover) once(ctx context.Context) (moved bool, err error) {
	waiting, err := m.file.Waiting(ctx)
	if err != nil {
		return false, nil //nolint:nilerr // the file logs that
	}
	if m.waiting.Store(int64(waiting)); waiting == 0 {
		if m.moved > 0 {
			m.logger.Info("the responses of the file are in the database", "responses", m.moved)
		}
		m.moved, m.skip, m.failed = 0, 0, false
		return false, nil
	}
	tree, err := m.file.Oldest(ctx, m.skip)
	if errors.Is(err, stored.ErrNotFound) {
		m.skip = 0
		return false, nil
	}
	up := m.up()
	if err == nil {
		err = m.move(ctx, tree)
	}
	if err != nil && (!away(err) || up && m.pool.Probe(ctx, m.patience()) == nil) {
		m.skip++ // the others first
	}
	return err == nil, err
}

// move moves one tree.
func (m *mover) move(ctx context.Context, t stored.Tree) error {
	if t.Conversation != "" {
		if err := m.file.Claim(t.Conversation, moving); err != nil {
			return err
		}
		defer m.file.Yield(t.Conversation, moving)
		if err := m.adoptConversation(ctx, t); err != nil {
			return err
		}
	}
	for _, id := range t.Responses {
		kept, err := m.file.Kept(ctx, t.Owner, id)
		if errors.Is(err, stored.ErrNotFound) { // it was deleted
			continue
		}
		if err == nil {
			err = m.adopt(ctx, kept)
		}
		if err != nil {
			return err
		}
		m.moved++
		select {
		case <-time.After(movePause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	gone, err := m.file.Pass(ctx, t)
	for _, id := range gone {
		if err == nil {
			_, err = m.remove(ctx, t.Owner, id)
		}
	}
	if err != nil || t.Conversation == "" {
		return err
	}
	if !m.file.Has(ctx, t.Conversation) {
		_, err := m.removeConversation(ctx, t.Owner, t.Conversation)
		return err
	}
	return m.file.PassConversation(ctx, t.Owner, t.Conversation)
}

// adopt stores a response of the file in the database.
func (m *mover) adopt(ctx context.Context, k stored.Kept) error {
	e := &entry{Response: k.Response, used: &k.Used, broken: k.Broken, process: m.Logs().Own()}
	if k.Conversation != "" {
		e.start = &k.Start
	}
	if err := m.readEvents(e); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return m.store(ctx, e, func(b *pgx.Batch) {
		e.queue(b, adoptSQL)
		b.Queue(`DELETE FROM codex.inflight WHERE id = $1 AND host = $2`, k.ID, m.host)
	})
}

// adoptConversation stores a conversation of the file in the database.
func (m *mover) adoptConversation(ctx context.Context, t stored.Tree) error {
	k, err := m.file.KeptConversation(ctx, t.Owner, t.Conversation)
	if errors.Is(err, stored.ErrNotFound) { // it was deleted
		return nil
	}
	if err != nil {
		return err
	}
	size := sizeOf(k.Items)
	ids, workers, bodies := columns(k.Items)
	positions := append([]int64{}, k.Positions...)
	return m.batch(ctx, size, func(b *pgx.Batch) {
		b.Queue(`INSERT INTO codex.conversations (id, owner, created, used, worker, next, size, metadata)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`,
			k.ID, k.Owner, k.Created, k.Used, k.Worker, k.Next, size, notNull(k.Metadata))
		b.Queue(`INSERT INTO codex.conversation_items (conversation, position, id, worker, body)
			SELECT $1::text, i.position, i.id, i.worker, i.body
			FROM unnest($2::bigint[], $3::bytea[], $4::text[], $5::bytea[]) AS i (position, id, worker, body)
			WHERE NOT EXISTS (SELECT FROM codex.conversation_items WHERE conversation = $1::text)`,
			k.ID, positions, ids, workers, bodies)
	})
}
