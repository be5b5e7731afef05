package shared

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"codex-proxy/proxy/stored"
)

// extension adds items at the end of a conversation. A condition and extended follow.
const extension = `WITH grown AS (UPDATE codex.conversations
	SET next = next + cardinality($3::bytea[]), size = size + $6::bigint, used = greatest(used, now()),
		worker = coalesce(nullif($7::text, ''), worker)
	WHERE id = $1::text AND owner = $2::text AND `

const extended = ` RETURNING next)
	INSERT INTO codex.conversation_items (conversation, position, id, worker, body)
	SELECT $1::text, grown.next - cardinality($3::bytea[]) + i.n - 1, i.id, i.worker, i.body
	FROM grown, unnest($3::bytea[], $4::text[], $5::bytea[]) WITH ORDINALITY AS i (id, worker, body, n)`

// queueExtension queues the statements that add the items of a response to its conversation, once.
func queueExtension(b *pgx.Batch, e *entry, items []stored.Item) {
	ids, workers, bodies := columns(items)
	b.Queue(extension+`EXISTS (SELECT FROM codex.responses
		WHERE id = $8::text AND process = $9::text AND NOT extended)`+extended,
		e.Conversation, e.Owner, ids, workers, bodies, sizeOf(items), e.Worker, e.ID, e.process)
	b.Queue(`UPDATE codex.responses SET extended = true WHERE id = $1 AND process = $2`, e.ID, e.process)
}

// Extend adds items to the end of a conversation. worker has answered; empty: none has.
func (s *Conversations) Extend(ctx context.Context, owner, id, worker string, items []stored.Item) error {
	if err := distinct(items); err != nil {
		return err
	}
	if sizeOf(items) > s.Bytes() {
		return stored.ErrNoRoom
	}
	extend := func() error { return s.extend(ctx, owner, id, worker, items) }
	err := extend()
	for away(err) && worker != "" && !s.file.Has(ctx, id) && pause(ctx) { // the answer would be lost
		err = extend()
	}
	if !absent(err) || !s.file.Has(ctx, id) {
		return err
	}
	return s.file.Extend(ctx, owner, id, worker, items)
}

func (s *Conversations) extend(ctx context.Context, owner, id, worker string, items []stored.Item) error {
	ids, workers, bodies := columns(items)
	tries, free := 0, ctx.Value(unheld{}) != nil
	var holder *string
	err := s.batch(ctx, sizeOf(items), func(b *pgx.Batch) {
		tries++
		b.Queue(extension+`(holder IS NULL OR NOT $8::boolean)`+extended,
			id, owner, ids, workers, bodies, sizeOf(items), worker, free)
		b.Queue(`SELECT holder FROM codex.conversations WHERE id = $1 AND owner = $2`, id, owner).
			QueryRow(scan(&holder))
	})
	switch {
	case isCode(err, duplicate) && tries > 1 && s.haveAll(ctx, id, ids): // the answer of the first try was lost
		return nil
	case isCode(err, duplicate):
		return s.duplicateOf(ctx, id, items, err)
	case err == nil && free && holder != nil:
		return stored.ErrLocked
	}
	return err
}

// haveAll reports whether a conversation has all items.
func (d *database) haveAll(ctx context.Context, id string, items [][]byte) bool {
	var n int
	err := d.row(ctx, `SELECT count(*) FROM codex.conversation_items WHERE conversation = $1 AND id = ANY($2::bytea[])`,
		[]any{id, items}, &n)
	return err == nil && n == len(items)
}

// ConversationItems are all items of a conversation.
func (s *Conversations) ConversationItems(ctx context.Context, owner, id string) ([]stored.Item, error) {
	return first(s.both,
		func() (items []stored.Item, err error) {
			found := false
			err = s.rows(ctx, stored.MaxHistory, `SELECT i.id, coalesce(i.worker, ''), i.body
				FROM codex.conversations AS c LEFT JOIN codex.conversation_items AS i ON i.conversation = c.id
				WHERE c.id = $1 AND c.owner = $2 ORDER BY i.position`, []any{id, owner},
				func() { items, found = nil, false },
				func(rows pgx.Rows) error {
					var itemID, body []byte
					var worker string
					err := rows.Scan(&itemID, &worker, &body)
					if found = true; itemID != nil {
						items = append(items, stored.Item{ID: string(itemID), JSON: body, Worker: worker})
					}
					return err
				})
			return items, missing(found, err)
		},
		func() ([]stored.Item, error) { return s.file.ConversationItems(ctx, owner, id) })
}

// listing is the result of ConversationHeads.
type listing struct {
	heads []stored.Head
	more  bool
}

// ConversationHeads are items of a conversation without their bodies. more is whether others follow.
func (s *Conversations) ConversationHeads(ctx context.Context, owner, id string,
	l stored.Listing) ([]stored.Head, bool, error) {
	list, err := first(s.both,
		func() (list listing, err error) {
			order := `i.position > coalesce($5::bigint, -1) ORDER BY i.position`
			if l.Descending {
				order = `i.position < coalesce($5::bigint, 1::bigint << 62) ORDER BY i.position DESC`
			}
			var from *int64
			if l.After != "" {
				if from, err = s.positionOf(ctx, owner, id, l.After); err != nil {
					return list, err
				}
			}
			list.heads, err = s.headsOf(ctx, owner, id, l.Encrypted, order+fmt.Sprintf(` LIMIT %d`, l.Limit+1), from)
			if list.more = len(list.heads) > l.Limit; list.more {
				list.heads = list.heads[:l.Limit]
			}
			return list, err
		},
		func() (list listing, err error) {
			list.heads, list.more, err = s.file.ConversationHeads(ctx, owner, id, l)
			return list, err
		})
	return list.heads, list.more, err
}

// positionOf is the position of an item.
func (d *database) positionOf(ctx context.Context, owner, id, item string) (position *int64, err error) {
	err = d.row(ctx, `SELECT i.position FROM codex.conversations AS c
		LEFT JOIN codex.conversation_items AS i ON i.conversation = c.id AND i.id = $3::bytea
		WHERE c.id = $1 AND c.owner = $2`, []any{id, owner, []byte(item)}, &position)
	if err == nil && position == nil {
		err = stored.ErrNoItem
	}
	return position, err
}

// headsOf reads heads of a conversation. which is a condition and an order, with one parameter.
func (d *database) headsOf(ctx context.Context, owner, id string, encrypted bool, which string,
	arg any) (heads []stored.Head, err error) {
	found := false
	err = d.rows(ctx, stored.MaxHistory, `SELECT i.id, i.position, `+headBody+`
		FROM codex.conversation_items AS i WHERE i.conversation = $1::text AND `+owned+` AND `+which,
		[]any{id, owner, false, !encrypted, arg},
		func() { heads = nil },
		func(rows pgx.Rows) error {
			var itemID, body []byte
			var length int64
			h := stored.Head{Owner: owner, Conversation: id, Encrypted: encrypted}
			err := rows.Scan(&itemID, &h.Position, &body, &length)
			h.ID, h.Size = string(itemID), shownSize(body, length)
			heads = append(heads, h)
			return err
		})
	if err != nil || heads != nil {
		return heads, err
	}
	err = d.row(ctx, `SELECT true FROM codex.conversations WHERE id = $1 AND owner = $2`, []any{id, owner}, &found)
	return nil, err
}

const (
	// owned is the condition that the conversation is the owner's.
	owned = `EXISTS (SELECT FROM codex.conversations AS c WHERE c.id = $1::text AND c.owner = $2::text)`
	// headBody is body with other numbers of the parameters.
	headBody = `CASE WHEN $3::boolean OR $4::boolean AND substring(i.id FROM 1 FOR 3) = '\x72735f'::bytea
		AND octet_length(i.body) <= 1048576 THEN i.body END, octet_length(i.body)`
)

// ConversationHead is one item of a conversation without its body.
func (s *Conversations) ConversationHead(ctx context.Context, owner, id, item string,
	encrypted bool) (stored.Head, error) {
	return first(s.both,
		func() (h stored.Head, err error) {
			heads, err := s.headsOf(ctx, owner, id, encrypted, `i.id = $5::bytea`, []byte(item))
			switch {
			case err != nil:
				return h, err
			case len(heads) == 0:
				return h, stored.ErrNoItem
			}
			return heads[0], nil
		},
		func() (stored.Head, error) { return s.file.ConversationHead(ctx, owner, id, item, encrypted) })
}

// DeleteConversationItem deletes an item of a conversation. The responses that have it keep it.
func (s *Conversations) DeleteConversationItem(ctx context.Context, owner, id, item string) error {
	return firstDo(s.both,
		func() error { return s.removeItem(ctx, owner, id, item) },
		func() error { return s.file.DeleteConversationItem(ctx, owner, id, item) })
}

func (d *database) removeItem(ctx context.Context, owner, id, item string) error {
	free := ctx.Value(unheld{}) != nil
	var removed int64
	var holder *string
	err := d.batch(ctx, 0, func(b *pgx.Batch) {
		b.Queue(`WITH shorter AS (UPDATE codex.conversations AS c
				SET size = size - octet_length(i.body), used = greatest(used, now())
				FROM codex.conversation_items AS i
				WHERE c.id = $1::text AND c.owner = $2::text AND (c.holder IS NULL OR NOT $4::boolean)
				AND i.conversation = c.id AND i.id = $3::bytea RETURNING i.position)
			DELETE FROM codex.conversation_items AS i USING shorter
			WHERE i.conversation = $1::text AND i.position = shorter.position`, id, owner, []byte(item), free).
			Exec(changed(&removed))
		b.Queue(`SELECT holder FROM codex.conversations WHERE id = $1 AND owner = $2`, id, owner).
			QueryRow(scan(&holder))
	})
	switch {
	case err != nil || removed > 0:
		return err
	case free && holder != nil:
		return stored.ErrLocked
	}
	return stored.ErrNoItem
}
