package stored

import (
	"context"
	"database/sql"
)

// Head is an item without its body.
type Head struct {
	ID   string // empty: it cannot be referred to
	Size int64  // of the body, in bytes

	Owner, Response string
	Conversation    string // with the item; empty: the response has it
	Position        int64
	Encrypted       bool // the body has its encrypted_content
}

// ObjectSize is how many bytes the response has, as it was sent.
func (s *Responses) ObjectSize(ctx context.Context, owner, id string) (size int64, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx,
			`SELECT length(object) FROM responses WHERE id = ? AND owner = ?`, id, owner).Scan(&size)
	})
	return size, explain("a response", err)
}

// ObjectPart is up to n bytes of the response, from the byte at from on. SQLite reads
// the whole response for it.
func (s *Responses) ObjectPart(ctx context.Context, owner, id string, from, n int64) (part []byte, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx,
			`SELECT substr(object, ?, ?) FROM responses WHERE id = ? AND owner = ?`, from+1, n, id, owner).Scan(&part)
	})
	return part, explain("a response", err)
}

// shown is the body of an item, without its encrypted_content unless the parameter is true. Items of reasoning have it;
// their ids have a prefix. SQLite reads these items whole, for which no memory is charged: so an item of more than a
// mebibyte is shown as it is. The encrypted reasoning of a turn has some kilobytes.
const shown = `CASE WHEN ? OR substr(items.id, 1, 3) <> 'rs_' OR length(body) > 1048576 THEN body
	ELSE CAST(json_remove(CAST(body AS TEXT), '$.encrypted_content') AS BLOB) END`

// InputHeads is Input without the bodies of the items. Without encrypted the bodies have no encrypted_content.
func (s *Responses) InputHeads(ctx context.Context, owner, id string, encrypted bool) (heads []Head, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		begun, err := readable(ctx, tx, owner, id)
		if err != nil {
			return err
		}
		if heads, err = begun.heads(ctx, tx, owner, encrypted); err != nil {
			return err
		}
		own, err := headsOf(ctx, tx, owner, id, encrypted)
		heads = append(heads, own...)
		return err
	})
	return heads, explain("the input of a response", err)
}

func headsOf(ctx context.Context, tx *sql.Tx, owner, id string, encrypted bool) (heads []Head, err error) {
	rows, err := tx.QueryContext(ctx, chain+`SELECT items.id, length(`+shown+`), response, position
		FROM chain JOIN responses USING (id) JOIN items ON items.response = chain.id
		WHERE depth > 0 OR NOT made ORDER BY depth DESC, position`, id, owner, encrypted)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		h := Head{Owner: owner, Encrypted: encrypted}
		if err := rows.Scan(&h.ID, &h.Size, &h.Response, &h.Position); err != nil {
			return nil, err
		}
		heads = append(heads, h)
	}
	return heads, rows.Err()
}

// BodyPart is ObjectPart for the body of an item.
func (s *Responses) BodyPart(ctx context.Context, h Head, from, n int64) (part []byte, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		if h.Conversation != "" {
			return tx.QueryRowContext(ctx, `SELECT substr(`+shown+`, ?, ?)
				FROM conversation_items AS items JOIN conversations ON conversations.id = items.conversation
				WHERE conversation = ? AND position = ? AND owner = ?`,
				h.Encrypted, from+1, n, h.Conversation, h.Position, h.Owner).Scan(&part)
		}
		return tx.QueryRowContext(ctx, `SELECT substr(`+shown+`, ?, ?)
			FROM items JOIN responses ON responses.id = items.response
			WHERE response = ? AND position = ? AND owner = ?`,
			h.Encrypted, from+1, n, h.Response, h.Position, h.Owner).Scan(&part)
	})
	return part, explain("an item", err)
}
