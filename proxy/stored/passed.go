package stored

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// A file keeps responses for a database of several hosts while that does not answer, and has older responses, from
// before there was a database. These methods are for the move into the database.

// Tree is a response or a conversation that begins a tree of responses, with all of them.
type Tree struct {
	Owner        string
	Conversation string   // empty: a response begins it
	Responses    []string // each after the one that it continues
}

// Kept is a response as the file has it.
type Kept struct {
	Response
	Used   time.Time
	Broken bool
	Start  int64 // position in its conversation
}

// KeptConversation is a conversation as the file has it.
type KeptConversation struct {
	Conversation
	Used      time.Time
	Worker    string // that answered last
	Next      int64  // position of the next item
	Items     []Item
	Positions []int64
}

// Waiting is how many responses and conversations there are.
func (s *File) Waiting(ctx context.Context) (n int, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT IFNULL(sum(count), 0)
			FROM (SELECT count FROM totals UNION ALL SELECT count FROM conversation_owners)`).Scan(&n)
	})
	return n, err
}

// Has reports whether there is a conversation with that id.
func (s *Conversations) Has(ctx context.Context, id string) (found bool) {
	err := s.read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT count(*) FROM conversations WHERE id = ?`, id).Scan(&found)
	})
	return err == nil && found
}

// Oldest is the tree that was used longest ago, after so many others; the trees of conversations are first. The
// error is ErrNotFound if no tree is left.
func (s *File) Oldest(ctx context.Context, skip int) (t Tree, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		var id string
		err := tx.QueryRowContext(ctx, `SELECT id, owner, conversation FROM (
			SELECT id, owner, used, id AS conversation FROM conversations
			UNION ALL
			SELECT id, owner, used, '' FROM links WHERE NOT EXISTS (
				SELECT 1 FROM links AS before WHERE before.id = links.previous AND before.owner = links.owner)
				AND NOT EXISTS (
				SELECT 1 FROM conversations AS c WHERE c.id = links.previous AND c.owner = links.owner))
			ORDER BY conversation = '', used LIMIT 1 OFFSET ?`, skip).Scan(&id, &t.Owner, &t.Conversation)
		if err != nil {
			return err
		}
		t.Responses, err = texts(tx.QueryContext(ctx, after+`SELECT id FROM after`, id, t.Owner, true, true))
		if t.Conversation == "" {
			t.Responses = append([]string{id}, t.Responses...)
		}
		return err
	})
	return t, explain("the oldest response", err)
}

// Kept reads a response.
func (s *Responses) Kept(ctx context.Context, owner, id string) (k Kept, err error) {
	k.ID, k.Owner = id, owner
	err = s.read(ctx, func(tx *sql.Tx) error {
		var used int64
		err := tx.QueryRowContext(ctx, `SELECT IFNULL(responses.previous, ''), worker, object, links.used, broken,
			IFNULL(logs.size, 0), IFNULL(conversation, ''), IFNULL(position, 0)
			FROM responses JOIN links USING (id) LEFT JOIN logs ON logs.id = responses.id
			LEFT JOIN conversation_starts ON response = responses.id
			WHERE responses.id = ? AND responses.owner = ?`, id, owner).
			Scan(&k.Previous, &k.Worker, &k.Object, &used, &k.Broken, &k.Log, &k.Conversation, &k.Start)
		if err != nil {
			return err
		}
		if k.Used = time.UnixMilli(used); k.Conversation != "" {
			k.Previous = ""
		}
		return k.readItems(ctx, tx)
	})
	return k, explain("a response", err)
}

func (k *Kept) readItems(ctx context.Context, tx *sql.Tx) error {
	rows, err := tx.QueryContext(ctx, `SELECT made, id, body FROM items WHERE response = ? ORDER BY position`, k.ID)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var made bool
		var item Item
		var body []byte
		if err := rows.Scan(&made, &item.ID, &body); err != nil {
			return err
		}
		item.JSON = body
		if made {
			k.Output = append(k.Output, item)
		} else {
			k.Input = append(k.Input, item)
		}
	}
	return rows.Err()
}

// KeptConversation reads a conversation.
func (s *Conversations) KeptConversation(ctx context.Context, owner, id string) (k KeptConversation, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		if k.Conversation, err = conversation(ctx, tx, owner, id); err != nil {
			return err
		}
		var used int64
		if err := tx.QueryRowContext(ctx, `SELECT used, worker, next FROM conversations WHERE id = ?`, id).
			Scan(&used, &k.Worker, &k.Next); err != nil {
			return err
		}
		k.Used = time.UnixMilli(used)
		all := history{conversation: id, until: k.Next}
		if k.Items, err = all.items(ctx, tx); err != nil {
			return err
		}
		heads, err := all.heads(ctx, tx, owner, true)
		for _, h := range heads {
			k.Positions = append(k.Positions, h.Position)
		}
		return err
	})
	return k, explainConversation("read", err)
}

// Pass forgets the responses of a tree that another store has now, but for those that others continue since. It returns
// the ones that were deleted meanwhile.
func (s *Responses) Pass(ctx context.Context, t Tree) (gone []string, err error) {
	for i := len(t.Responses) - 1; i >= 0; i-- {
		id := t.Responses[i]
		err := s.write(ctx, func(tx *sql.Tx) error {
			var next int
			if err := tx.QueryRowContext(ctx, `SELECT next FROM links WHERE id = ? AND owner = ?`, id, t.Owner).
				Scan(&next); err != nil || next > 0 {
				return err
			}
			_, err := tx.ExecContext(ctx, `DELETE FROM responses WHERE id = ? AND owner = ?`, id, t.Owner)
			return err
		})
		if errors.Is(err, sql.ErrNoRows) {
			gone, err = append(gone, id), nil
		}
		if err != nil {
			return gone, explain("a response", err)
		}
	}
	return gone, nil
}

// PassConversation forgets a conversation that another store has now, unless responses begin with it since.
func (s *Conversations) PassConversation(ctx context.Context, owner, id string) error {
	return explainConversation("delete", s.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM conversations WHERE id = ? AND owner = ?
			AND NOT EXISTS (SELECT 1 FROM links WHERE previous = conversations.id
			AND owner = conversations.owner)`, id, owner)
		return err
	}))
}

// PassBackground forgets a background response of this process that another store has now. Its log stays for a while,
// for its readers.
func (s *File) PassBackground(ctx context.Context, id string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM inflight WHERE id = ? AND process = ?`, id, s.Events.Own())
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE logs SET gone = 1 WHERE id = ?`, id)
		return err
	})
}
