package stored

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
)

// Object is the response as it was sent.
func (s *Responses) Object(ctx context.Context, owner, id string) (json.RawMessage, error) {
	var object []byte
	err := s.read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx,
			`SELECT object FROM responses WHERE id = ? AND owner = ?`, id, owner).Scan(&object)
	})
	return object, explain("a response", err)
}

// Item is the newest item with that id, of a response or else of a conversation.
func (s *Responses) Item(ctx context.Context, owner, id string) (Item, error) {
	item := Item{ID: id}
	var body []byte
	err := s.read(ctx, func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, `SELECT body, CASE made WHEN 1 THEN worker ELSE '' END
			FROM items JOIN responses ON responses.id = items.response
			WHERE items.id = ? AND owner = ? ORDER BY used DESC LIMIT 1`, id, owner).Scan(&body, &item.Worker)
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		return tx.QueryRowContext(ctx, `SELECT body, conversation_items.worker
			FROM conversation_items JOIN conversations ON conversations.id = conversation
			WHERE conversation_items.id = ? AND owner = ? ORDER BY used DESC LIMIT 1`, id, owner).
			Scan(&body, &item.Worker)
	})
	item.JSON = body
	return item, explain("an item", err)
}

// About is the worker that answered, and the size of History in bytes.
func (s *Responses) About(ctx context.Context, owner, id string) (worker string, size int64, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		begun, err := readable(ctx, tx, owner, id)
		if size = begun.size; err != nil {
			return err
		}
		return tx.QueryRowContext(ctx,
			`SELECT worker FROM responses WHERE id = ? AND owner = ?`, id, owner).Scan(&worker)
	})
	return worker, size, explain("a response", err)
}

// maxRoot is how many bytes the first response of a chain may have for Root to read it.
const maxRoot = 1 << 20

// Root is the first response of a chain, as it was sent; nil if it is large.
func (s *Responses) Root(ctx context.Context, owner, id string) (object json.RawMessage, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		var body []byte
		err := tx.QueryRowContext(ctx, chain+`SELECT CASE WHEN length(object) <= ? THEN object END
			FROM chain JOIN responses USING (id) WHERE responses.owner = ? ORDER BY depth DESC LIMIT 1`,
			id, owner, maxRoot, owner).Scan(&body)
		object = body
		return err
	})
	return object, explain("the beginning of a conversation", err)
}

// History is all input and output up to the response, with its own.
func (s *Responses) History(ctx context.Context, owner, id string) (items []Item, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		begun, err := readable(ctx, tx, owner, id)
		if err != nil {
			return err
		}
		if items, err = begun.items(ctx, tx); err != nil {
			return err
		}
		own, err := itemsOf(ctx, tx, owner, id)
		items = append(items, own...)
		return err
	})
	return items, explain("the history of a response", err)
}

// history is the part before a response: of a conversation, if its chain begins with one, and of the chain.
type history struct {
	conversation string // empty: none
	until        int64  // position of the first item after the conversation's items
	size         int64  // bytes of all items, including the chain's items
}

// readable is the history of a chain, or the reason why it cannot be read.
func readable(ctx context.Context, tx *sql.Tx, owner, id string) (history, error) {
	h, err := whole(ctx, tx, owner, id)
	if err == nil && h.size > MaxHistory {
		err = ErrTooLong
	}
	return h, err
}

// chain are the ids from a response back to the first one; the last one may be
// deleted, or a conversation. Its parameters are the id and the owner.
const chain = `WITH RECURSIVE chain (id, depth) AS (
	SELECT ?, 0
	UNION ALL
	SELECT previous, depth + 1 FROM links JOIN chain USING (id) WHERE owner = ? AND previous IS NOT NULL
) `

// whole is the history of a chain that is complete to its beginning. Its size does not count the responses as they were
// sent, which repeat their output and have the tools.
func whole(ctx context.Context, tx *sql.Tx, owner, id string) (h history, err error) {
	var found, missing int
	err = tx.QueryRowContext(ctx, chain+`SELECT count(links.id), sum(links.broken OR links.id IS NULL AND conversations.id IS NULL),
		IFNULL(sum(links.size), 0), IFNULL(max(conversations.id), '')
		FROM chain LEFT JOIN links ON links.id = chain.id AND links.owner = ?
		LEFT JOIN conversations ON links.id IS NULL AND conversations.id = chain.id AND conversations.owner = ?`,
		id, owner, owner, owner).Scan(&found, &missing, &h.size, &h.conversation)
	switch {
	case err != nil:
		return h, err
	case found == 0:
		return h, ErrNotFound
	case missing > 0:
		return h, ErrBroken
	case h.conversation == "":
		return h, nil
	}
	var before int64
	err = tx.QueryRowContext(ctx, chain+`SELECT position, (SELECT IFNULL(sum(length(body)), 0) FROM conversation_items
			WHERE conversation = starts.conversation AND position < starts.position)
		FROM chain JOIN conversation_starts AS starts ON response = chain.id`, id, owner).Scan(&h.until, &before)
	h.size += before
	return h, err
}

func itemsOf(ctx context.Context, tx *sql.Tx, owner, id string) (items []Item, err error) {
	rows, err := tx.QueryContext(ctx, chain+`SELECT items.id, body, CASE made WHEN 1 THEN worker ELSE '' END
		FROM chain JOIN responses USING (id) JOIN items ON items.response = chain.id
		ORDER BY depth DESC, position`, id, owner)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var item Item
		var body []byte
		if err := rows.Scan(&item.ID, &body, &item.Worker); err != nil {
			return nil, err
		}
		item.JSON = body
		items = append(items, item)
	}
	return items, rows.Err()
}

// explain adds to an error of SQLite the thing that was looked up.
func explain(what string, err error) error {
	switch {
	case err == nil, errors.Is(err, ErrNotFound), errors.Is(err, ErrBroken), errors.Is(err, ErrTooLong),
		errors.Is(err, ErrUnavailable):
		return err
	case errors.Is(err, sql.ErrNoRows):
		return ErrNotFound
	default:
		return fmt.Errorf("cannot look up %s: %w", what, err)
	}
}
