package shared

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"codex-proxy/proxy/stored"
)

// duplicate is the code of an error of the server: "unique_violation".
const duplicate = "23505"

// CreateConversation stores a new conversation with its first items, in the database alone if
// this host has joined.
func (s *Conversations) CreateConversation(ctx context.Context, c stored.Conversation, items []stored.Item) error {
	if s.foreign() {
		return s.file.CreateConversation(ctx, c, items)
	}
	size := sizeOf(items)
	if size+int64(len(c.Metadata)) > s.Bytes() {
		return stored.ErrNoRoom
	}
	if err := distinct(items); err != nil {
		return err
	}
	ids, workers, bodies := columns(items)
	return s.batch(ctx, size, func(b *pgx.Batch) {
		b.Queue(`INSERT INTO codex.conversations (id, owner, created, used, worker, next, size, metadata)
			VALUES ($1, $2, $3, now(), '', $4, $5, $6) ON CONFLICT DO NOTHING`,
			c.ID, c.Owner, c.Created, len(items), size, notNull(c.Metadata))
		b.Queue(`INSERT INTO codex.conversation_items (conversation, position, id, worker, body)
			SELECT $1::text, i.n - 1, i.id, i.worker, i.body
			FROM unnest($2::bytea[], $3::text[], $4::bytea[]) WITH ORDINALITY AS i (id, worker, body, n)
			WHERE NOT EXISTS (SELECT FROM codex.conversation_items WHERE conversation = $1::text)`,
			c.ID, ids, workers, bodies)
	})
}

// distinct returns stored.ErrDuplicate if two items have the same id.
func distinct(items []stored.Item) error {
	seen := make(map[string]bool, len(items))
	for _, i := range items {
		if seen[i.ID] {
			return fmt.Errorf("%w: %s", stored.ErrDuplicate, i.ID)
		}
		seen[i.ID] = true
	}
	return nil
}

// duplicateOf returns stored.ErrDuplicate with the item that the conversation has already, or else err.
func (d *database) duplicateOf(ctx context.Context, conversation string, items []stored.Item, err error) error {
	ids, _, _ := columns(items)
	var id []byte
	if d.row(ctx, `SELECT id FROM codex.conversation_items WHERE conversation = $1 AND id = ANY($2::bytea[]) LIMIT 1`,
		[]any{conversation, ids}, &id) != nil {
		return err
	}
	return fmt.Errorf("%w: %s", stored.ErrDuplicate, id)
}

// Conversation finds a conversation.
func (s *Conversations) Conversation(ctx context.Context, owner, id string) (stored.Conversation, error) {
	return first(s.both,
		func() (stored.Conversation, error) {
			c := stored.Conversation{ID: id, Owner: owner}
			var metadata []byte
			err := s.row(ctx, `SELECT created, metadata FROM codex.conversations WHERE id = $1 AND owner = $2`,
				[]any{id, owner}, &c.Created, &metadata)
			c.Metadata = metadata
			return c, err
		},
		func() (stored.Conversation, error) { return s.file.Conversation(ctx, owner, id) })
}

// UpdateConversation replaces the metadata of a conversation.
func (s *Conversations) UpdateConversation(ctx context.Context, owner, id string,
	metadata json.RawMessage) (stored.Conversation, error) {
	return first(s.both,
		func() (stored.Conversation, error) {
			c := stored.Conversation{ID: id, Owner: owner, Metadata: metadata}
			err := s.row(ctx, `UPDATE codex.conversations SET metadata = $3, used = greatest(used, now())
				WHERE id = $1 AND owner = $2 RETURNING created`, []any{id, owner, notNull(metadata)}, &c.Created)
			return c, err
		},
		func() (stored.Conversation, error) { return s.file.UpdateConversation(ctx, owner, id, metadata) })
}

// DeleteConversation deletes a conversation with its items. Its responses stay, and cannot be continued then.
func (s *Conversations) DeleteConversation(ctx context.Context, owner, id string) error {
	return firstDo(s.both,
		func() error {
			found, err := s.removeConversation(ctx, owner, id)
			return missing(found, err)
		},
		func() error { return s.file.DeleteConversation(ctx, owner, id) })
}

// removeConversation deletes a conversation of the database, and reports whether there was one.
func (d *database) removeConversation(ctx context.Context, owner, id string) (bool, error) {
	var deleted int64
	err := d.batch(ctx, 0, func(b *pgx.Batch) {
		b.Queue(`WITH RECURSIVE after AS (
				SELECT id FROM codex.responses WHERE conversation = $1::text AND owner = $2::text
				UNION ALL
				SELECT r.id FROM after JOIN codex.responses AS r ON r.previous = after.id AND r.owner = $2::text)
			UPDATE codex.responses SET broken = true WHERE id IN (SELECT id FROM after) AND NOT broken`, id, owner)
		b.Queue(`DELETE FROM codex.conversations WHERE id = $1 AND owner = $2`, id, owner).Exec(changed(&deleted))
	})
	return deleted > 0, err
}

// ConversationAbout is the worker that answered last in a conversation, and the bytes of its items.
func (s *Conversations) ConversationAbout(ctx context.Context, owner, id string) (string, int64, error) {
	a, err := first(s.both,
		func() (a about, err error) {
			err = s.row(ctx, `SELECT worker, size FROM codex.conversations WHERE id = $1 AND owner = $2`,
				[]any{id, owner}, &a.worker, &a.size)
			if err == nil && a.size > stored.MaxHistory {
				err = stored.ErrTooLong
			}
			return a, err
		},
		func() (a about, err error) {
			a.worker, a.size, err = s.file.ConversationAbout(ctx, owner, id)
			return a, err
		})
	return a.worker, a.size, err
}
