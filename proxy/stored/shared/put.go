package shared

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"codex-proxy/proxy/stored"
)

// place has where a response begins in its conversation.
const place = `place AS (SELECT next FROM codex.conversations WHERE id = $8::text AND owner = $2::text)`

// insert inserts a response unless it is there already. A condition or a source follows.
const insert = ` INSERT INTO codex.responses
	(id, owner, previous, worker, size, items, object, conversation, broken, used, start, process)
	SELECT $1::text, $2::text, nullif($3::text, ''), $4::text, $5::bigint, $6::bigint, $7::bytea, nullif($8::text, ''),
		$9::boolean OR $3::text <> '' AND NOT EXISTS (SELECT FROM codex.responses AS before
			WHERE before.id = $3::text AND before.owner = $2::text AND NOT before.broken),
		coalesce($10::timestamptz, now()), coalesce($11::bigint, (SELECT next FROM place), 0), $12::text `

// continues is the condition that the responses before it, and its conversation, are there, or need not be.
const continues = `WHERE ($3::text = '' OR EXISTS (SELECT FROM codex.responses AS before
		WHERE before.id = $3::text AND before.owner = $2::text AND NOT before.broken))
	AND ($8::text = '' OR $13::boolean OR EXISTS (SELECT FROM place)) ON CONFLICT (id) DO NOTHING`

const (
	putSQL = `WITH ` + place + insert + continues
	// adoptSQL stores a response of the file. Another host may have ended it, or a client of another host deleted it.
	adoptSQL = `WITH ` + place + insert + `WHERE NOT EXISTS (
		SELECT FROM codex.inflight WHERE id = $1::text AND cancelled = 2) ON CONFLICT (id) DO NOTHING`
	// finishSQL stores a background response that a process runs, unless it was deleted.
	finishSQL = `WITH ` + place + `, ended AS (DELETE FROM codex.inflight WHERE id = $1::text AND process = $13::text
		RETURNING cancelled)` + insert + `FROM ended WHERE cancelled < 2 ON CONFLICT (id) DO NOTHING`
)

// mine is the condition that this process has stored the response: not another host that took this one for lost.
const mine = `EXISTS (SELECT FROM codex.responses WHERE id = $1::text AND process = $2::text)`

// itemsSQL inserts the items of a response that this process has stored, all or none: a response may come again with
// others, from the file, if the answer of the database was lost.
const itemsSQL = `INSERT INTO codex.items (response, position, made, id, body)
	SELECT $1::text, i.n - 1, i.n > $3::bigint, i.id, i.body
	FROM unnest($4::bytea[], $5::bytea[]) WITH ORDINALITY AS i (id, body, n) WHERE ` + mine + `
	AND NOT EXISTS (SELECT FROM codex.items WHERE response = $1::text) ON CONFLICT DO NOTHING`

const eventsSQL = `INSERT INTO codex.events (response, first, body) SELECT $1::text, $3::bigint, $4::bytea
	WHERE ` + mine + ` ON CONFLICT DO NOTHING`

// entry is a response on its way into the database.
type entry struct {
	stored.Response
	used    *time.Time // nil: now
	start   *int64     // nil: the end of the conversation
	broken  bool
	process string // that stores it
	events  []byte // nil: none
	first   int    // number of the first of them
}

// args are the arguments of putSQL and the like.
func (e *entry) args(more ...any) []any {
	items := sizeOf(e.Input) + sizeOf(e.Output)
	return append([]any{
		e.ID, e.Owner, e.Previous, e.Worker, e.Size(), items, notNull(e.Object), e.Conversation,
		e.broken || e.Unfinished, e.used, e.start, e.process,
	}, more...)
}

// queue queues the statements that store e after sql, which inserts its row.
func (e *entry) queue(b *pgx.Batch, sql string, more ...any) {
	b.Queue(sql, e.args(more...)...)
	items := append(append([]stored.Item{}, e.Input...), e.Output...)
	if len(items) > 0 {
		ids, _, bodies := columns(items)
		b.Queue(itemsSQL, e.ID, e.process, len(e.Input), ids, bodies)
	}
	if e.Extends {
		queueExtension(b, e, items)
	}
	if e.events != nil {
		b.Queue(eventsSQL, e.ID, e.process, e.first, e.events)
	}
}

// Put stores a response. While the database does not answer, the file stores it, unless a response or a conversation
// before it is in the database: see stored.ErrApart.
func (s *Responses) Put(ctx context.Context, r stored.Response) error {
	if r.Size() > s.Bytes() {
		return fmt.Errorf("cannot store a response: %w", stored.ErrNoRoom)
	}
	err := s.put(ctx, r, false)
	for away(err) && r.Conversation != "" && !s.file.Has(ctx, r.Conversation) {
		if !pause(ctx) {
			return err
		}
		err = s.put(ctx, r, false)
	}
	switch {
	case err == nil:
		return nil
	case !away(err) && !errors.Is(err, stored.ErrNotFound):
		return fmt.Errorf("cannot store a response: %w", err)
	}
	return s.spool(ctx, r, err)
}

// pause waits for the next try; it reports false if ctx ends before.
func pause(ctx context.Context) bool {
	timer := time.NewTimer(again)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// again is the time between two tries.
const again = 250 * time.Millisecond

// spool stores a response in the file if its history is there, or if it has no history. err is the database's.
func (s *Responses) spool(ctx context.Context, r stored.Response, err error) error {
	switch {
	case r.Conversation != "" && !s.file.Has(ctx, r.Conversation):
		return s.put(ctx, r, true) // it was deleted: the response cannot be continued
	case r.Conversation == "" && r.Previous == "" && !away(err):
		return fmt.Errorf("cannot store a response: %w", err)
	}
	fileErr := s.file.Put(ctx, r)
	switch {
	case fileErr == nil:
		if s.waiting.Add(1) == 1 {
			s.logger.Warn("responses are kept in a file of this host until the database answers", "error", err)
		}
		return nil
	case !errors.Is(fileErr, stored.ErrNotFound):
		return fileErr
	case away(err):
		return stored.ErrApart
	}
	return s.put(ctx, r, false) // perhaps the one before it has moved meanwhile
}

// put stores a response in the database. loose allows a conversation that is not there.
func (s *Responses) put(ctx context.Context, r stored.Response, loose bool) error {
	e := &entry{Response: r, process: s.Logs().Own()}
	var there bool
	var broken *bool // of the one before it; nil: it is not there
	err := s.store(ctx, e, func(b *pgx.Batch) {
		e.queue(b, putSQL, loose)
		b.Queue(`SELECT EXISTS (SELECT FROM codex.responses WHERE id = $1 AND owner = $2),
			(SELECT broken FROM codex.responses WHERE id = $3 AND owner = $2)`, r.ID, r.Owner, r.Previous).
			QueryRow(scan(&there, &broken))
	})
	switch {
	case err != nil || there:
		return err
	case broken != nil && *broken:
		return stored.ErrBroken
	}
	return stored.ErrNotFound
}

// store runs the statements that store e. If its items are in its conversation already, the error names them.
func (d *database) store(ctx context.Context, e *entry, fill func(*pgx.Batch)) error {
	items := append(append([]stored.Item{}, e.Input...), e.Output...)
	if e.Extends {
		if err := distinct(items); err != nil {
			return err
		}
	}
	err := d.batch(ctx, e.Size(), fill)
	if isCode(err, duplicate) {
		return d.duplicateOf(ctx, e.Conversation, items, err)
	}
	return err
}

// columns are the ids, workers and bodies of items.
func columns(items []stored.Item) (ids [][]byte, workers []string, bodies [][]byte) {
	ids, workers, bodies = [][]byte{}, []string{}, [][]byte{} // nil would be NULL
	for _, i := range items {
		ids, workers, bodies = append(ids, []byte(i.ID)), append(workers, i.Worker), append(bodies, notNull(i.JSON))
	}
	return ids, workers, bodies
}

func sizeOf(items []stored.Item) (bytes int64) {
	for _, i := range items {
		bytes += int64(len(i.JSON))
	}
	return bytes
}

// notNull is a value that is not NULL.
func notNull(bytes []byte) []byte {
	if bytes == nil {
		return []byte{}
	}
	return bytes
}
