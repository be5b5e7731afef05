package stored

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ErrDuplicate means that the conversation has an item with that id.
var ErrDuplicate = errors.New("the conversation has an item with that id already")

// Conversation is a conversation without its items.
type Conversation struct {
	ID, Owner string
	Created   int64           // Unix seconds
	Metadata  json.RawMessage // an object
}

// CreateConversation stores a new conversation with its first items.
func (s *Conversations) CreateConversation(ctx context.Context, c Conversation, items []Item) error {
	err := s.write(ctx, func(tx *sql.Tx) error {
		now := time.Now()
		if _, err := tx.ExecContext(ctx, `INSERT INTO conversations VALUES (?, ?, ?, ?, '', 0, 0, ?)`,
			c.ID, c.Owner, c.Created, now.UnixMilli(), []byte(c.Metadata)); err != nil {
			return err
		}
		if err := extend(ctx, tx, c.Owner, c.ID, "", items, now); err != nil {
			return err
		}
		_, err := s.makeRoom(ctx, tx, Response{Owner: c.Owner, Conversation: c.ID}, now.Add(roomTime))
		return err
	})
	return explainConversation("store", err)
}

// Conversation finds a conversation.
func (s *Conversations) Conversation(ctx context.Context, owner, id string) (c Conversation, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		c, err = conversation(ctx, tx, owner, id)
		return err
	})
	return c, explainConversation("find", err)
}

func conversation(ctx context.Context, tx *sql.Tx, owner, id string) (Conversation, error) {
	c := Conversation{ID: id, Owner: owner}
	var metadata []byte
	err := tx.QueryRowContext(ctx, `SELECT created, metadata FROM conversations WHERE id = ? AND owner = ?`,
		id, owner).Scan(&c.Created, &metadata)
	c.Metadata = metadata
	return c, err
}

// UpdateConversation replaces the metadata of a conversation.
func (s *Conversations) UpdateConversation(ctx context.Context, owner, id string,
	metadata json.RawMessage) (c Conversation, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		now := time.Now()
		if _, err := tx.ExecContext(ctx, `UPDATE conversations SET metadata = ?, used = max(used, ?)
			WHERE id = ? AND owner = ?`, []byte(metadata), now.UnixMilli(), id, owner); err != nil {
			return err
		}
		if c, err = conversation(ctx, tx, owner, id); err != nil {
			return err
		}
		_, err := s.makeRoom(ctx, tx, Response{Owner: owner, Conversation: id}, now.Add(roomTime))
		return err
	})
	return c, explainConversation("update", err)
}

// DeleteConversation deletes a conversation with its items. Its responses stay, and cannot be continued then.
func (s *Conversations) DeleteConversation(ctx context.Context, owner, id string) error {
	return explainConversation("delete", s.write(ctx, func(tx *sql.Tx) error {
		found, err := removeConversation(ctx, tx, owner, id)
		if err == nil && !found {
			err = ErrNotFound
		}
		return err
	}))
}

// removeConversation deletes a conversation and breaks the chains that begin with it.
func removeConversation(ctx context.Context, tx *sql.Tx, owner, id string) (found bool, err error) {
	result, err := tx.ExecContext(ctx, `DELETE FROM conversations WHERE id = ? AND owner = ?`, id, owner)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	if err != nil || n == 0 {
		return false, err
	}
	_, err = tx.ExecContext(ctx, after+`UPDATE links SET broken = 1 WHERE id IN (SELECT id FROM after)`,
		id, owner, false, false)
	return true, err
}

// explainConversation adds the attempted operation to an error of SQLite.
func explainConversation(what string, err error) error {
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return ErrNotFound
	case err == nil, expected(err):
		return err
	default:
		return fmt.Errorf("cannot %s a conversation: %w", what, err)
	}
}
