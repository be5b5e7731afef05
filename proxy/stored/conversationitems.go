package stored

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// begin records where a response began in its conversation, and adds its items to it if the response extends it. The
// response has been inserted. If the conversation was deleted meanwhile, the response cannot be continued.
func begin(ctx context.Context, tx *sql.Tx, r Response, now time.Time) error {
	result, err := tx.ExecContext(ctx, `INSERT INTO conversation_starts
		SELECT ?, id, next FROM conversations WHERE id = ? AND owner = ?`, r.ID, r.Conversation, r.Owner)
	if err := affected(result, err); errors.Is(err, sql.ErrNoRows) {
		return nil
	} else if err != nil {
		return err
	}
	// The trigger takes the id of the conversation for one of a response that is gone.
	if _, err := tx.ExecContext(ctx, `UPDATE links SET broken = 0 WHERE id = ?`, r.ID); err != nil || !r.Extends {
		return err
	}
	return extend(ctx, tx, r.Owner, r.Conversation, r.Worker, append(append([]Item{}, r.Input...), r.Output...), now)
}

// Extend adds the items of a response that is not stored to the end of a conversation. worker has answered; empty: none
// has.
func (s *Conversations) Extend(ctx context.Context, owner, id, worker string, items []Item) error {
	return explainConversation("extend", s.write(ctx, func(tx *sql.Tx) error {
		now := time.Now()
		if err := extend(ctx, tx, owner, id, worker, items, now); err != nil {
			return err
		}
		_, err := s.makeRoom(ctx, tx, Response{Owner: owner, Conversation: id}, now.Add(roomTime))
		return err
	}))
}

// extend adds items at the end of a conversation, which is used by that.
func extend(ctx context.Context, tx *sql.Tx, owner, id, worker string, items []Item, now time.Time) error {
	var next int64
	if err := tx.QueryRowContext(ctx, `UPDATE conversations
		SET next = next + ?, size = size + ?, used = max(used, ?), worker = IFNULL(NULLIF(?, ''), worker)
		WHERE id = ? AND owner = ? RETURNING next`,
		len(items), sizeOf(items), now.UnixMilli(), worker, id, owner).Scan(&next); err != nil {
		return err
	}
	insert, err := tx.PrepareContext(ctx,
		`INSERT INTO conversation_items VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`)
	if err != nil {
		return err
	}
	defer insert.Close() //nolint:errcheck // the transaction reports failures
	for i, item := range items {
		err := affected(insert.ExecContext(ctx, id, next-int64(len(items)-i), item.ID, item.Worker, []byte(item.JSON)))
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%w: %s", ErrDuplicate, item.ID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ConversationAbout is the worker that answered last in a conversation, and the bytes of its items.
func (s *Conversations) ConversationAbout(ctx context.Context, owner,
	id string) (worker string, size int64, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT worker, size FROM conversations WHERE id = ? AND owner = ?`, id, owner).
			Scan(&worker, &size)
	})
	if err == nil && size > MaxHistory {
		err = ErrTooLong
	}
	return worker, size, explainConversation("find", err)
}

// ConversationItems are all items of a conversation.
func (s *Conversations) ConversationItems(ctx context.Context, owner, id string) (items []Item, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		all := history{conversation: id}
		if err := tx.QueryRowContext(ctx, `SELECT next FROM conversations WHERE id = ? AND owner = ?`, id, owner).
			Scan(&all.until); err != nil {
			return err
		}
		items, err = all.items(ctx, tx)
		return err
	})
	return items, explainConversation("read", err)
}

// items are the items of the conversation.
func (h history) items(ctx context.Context, tx *sql.Tx) (items []Item, err error) {
	if h.conversation == "" {
		return nil, nil
	}
	rows, err := tx.QueryContext(ctx, `SELECT id, worker, body FROM conversation_items
		WHERE conversation = ? AND position < ? ORDER BY position`, h.conversation, h.until)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var item Item
		var body []byte
		if err := rows.Scan(&item.ID, &item.Worker, &body); err != nil {
			return nil, err
		}
		item.JSON = body
		items = append(items, item)
	}
	return items, rows.Err()
}

// heads are the items of the conversation without their bodies.
func (h history) heads(ctx context.Context, tx *sql.Tx, owner string, encrypted bool) ([]Head, error) {
	if h.conversation == "" {
		return nil, nil
	}
	rows, err := tx.QueryContext(ctx, `SELECT id, length(`+shown+`), position FROM conversation_items AS items
		WHERE conversation = ? AND position < ? ORDER BY position`, encrypted, h.conversation, h.until)
	return headsIn(rows, err, h.conversation, owner, encrypted)
}

// headsIn reads rows of heads of a conversation.
func headsIn(rows *sql.Rows, err error, conversation, owner string, encrypted bool) (heads []Head, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		h := Head{Owner: owner, Conversation: conversation, Encrypted: encrypted}
		if err := rows.Scan(&h.ID, &h.Size, &h.Position); err != nil {
			return nil, err
		}
		heads = append(heads, h)
	}
	return heads, rows.Err()
}

// Listing is a part of the items of a conversation.
type Listing struct {
	After      string // id of the item before the first; empty: from the beginning
	Limit      int
	Descending bool
	Encrypted  bool // the bodies have their encrypted_content
}

// ErrNoItem means that the conversation has no item with that id.
var ErrNoItem = errors.New("the conversation has no such item")

// ConversationHeads are items of a conversation without their bodies. more is whether others follow.
func (s *Conversations) ConversationHeads(ctx context.Context, owner, id string,
	l Listing) (heads []Head, more bool, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		if _, err := conversation(ctx, tx, owner, id); err != nil {
			return err
		}
		order, from := `position > ? ORDER BY position`, int64(-1)
		if l.Descending {
			order, from = `position < ? ORDER BY position DESC`, 1<<62
		}
		if l.After != "" {
			if from, err = positionOf(ctx, tx, id, l.After); err != nil {
				return err
			}
		}
		rows, err := tx.QueryContext(ctx, `SELECT id, length(`+shown+`), position FROM conversation_items AS items
			WHERE conversation = ? AND `+order+` LIMIT ?`, l.Encrypted, id, from, l.Limit+1)
		heads, err = headsIn(rows, err, id, owner, l.Encrypted)
		return err
	})
	if more = len(heads) > l.Limit; more {
		heads = heads[:l.Limit]
	}
	return heads, more, explainConversation("read", err)
}

// ConversationHead is one item of a conversation without its body.
func (s *Conversations) ConversationHead(ctx context.Context, owner, id, item string,
	encrypted bool) (h Head, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		if _, err := conversation(ctx, tx, owner, id); err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, `SELECT id, length(`+shown+`), position FROM conversation_items AS items
			WHERE conversation = ? AND id = ?`, encrypted, id, item)
		heads, err := headsIn(rows, err, id, owner, encrypted)
		if err == nil && heads == nil {
			return ErrNoItem
		}
		if err == nil {
			h = heads[0]
		}
		return err
	})
	return h, explainConversation("read", err)
}

// positionOf is the position of an item of a conversation.
func positionOf(ctx context.Context, tx *sql.Tx, conversation, item string) (position int64, err error) {
	err = tx.QueryRowContext(ctx, `SELECT position FROM conversation_items WHERE id = ? AND conversation = ?`,
		item, conversation).Scan(&position)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNoItem
	}
	return position, err
}

// DeleteConversationItem deletes an item of a conversation. The responses that have it keep it.
func (s *Conversations) DeleteConversationItem(ctx context.Context, owner, id, item string) error {
	return explainConversation("shorten", s.write(ctx, func(tx *sql.Tx) error {
		if _, err := conversation(ctx, tx, owner, id); err != nil {
			return err
		}
		var size int64
		err := tx.QueryRowContext(ctx, `DELETE FROM conversation_items WHERE id = ? AND conversation = ?
			RETURNING length(body)`, item, id).Scan(&size)
		if errors.Is(err, sql.ErrNoRows) {
			return ErrNoItem
		}
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE conversations SET size = size - ?, used = max(used, ?) WHERE id = ?`,
			size, time.Now().UnixMilli(), id)
		return err
	}))
}
