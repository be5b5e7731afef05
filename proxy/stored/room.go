package stored

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// roomTime is how long Put keeps others from writing to make room for its response.
const roomTime = time.Second

// makeRoom deletes responses and conversations until the rest is within the limits: the owner with the most loses the
// one used longest ago, so that no owner fills the file at the expense of others. Of a chain the last response is
// deleted first. There is no room for r, with its conversation, if they alone exceed the limits. makeRoom stops at
// until, and the sweep goes on: a transaction that takes too long would fail, and so would each after it.
func (d *database) makeRoom(ctx context.Context, tx *sql.Tx, r Response, until time.Time) (room bool, err error) {
	for {
		var count int
		var bytes int64
		if err := tx.QueryRowContext(ctx, `SELECT sum(count), sum(bytes)
			FROM (SELECT count, bytes FROM totals UNION ALL SELECT count, bytes FROM conversation_owners)`).
			Scan(&count, &bytes); err != nil {
			return false, err
		}
		if count <= d.Limits.Count && bytes <= d.Limits.Bytes {
			return true, nil
		}
		if err := dropOldest(ctx, tx, r, count > d.Limits.Count); err != nil {
			return false, err
		}
		if !time.Now().Before(until) {
			return false, nil
		}
	}
}

// dropOldest deletes, of the owner with the most responses and conversations in number or else in bytes, the one used
// longest ago, but neither r nor its conversation.
func dropOldest(ctx context.Context, tx *sql.Tx, r Response, inNumber bool) error {
	var owner string
	if err := tx.QueryRowContext(ctx, `SELECT owner
		FROM (SELECT owner, count, bytes FROM owners UNION ALL SELECT owner, count, bytes FROM conversation_owners)
		GROUP BY owner ORDER BY CASE ? WHEN 1 THEN sum(count) ELSE sum(bytes) END DESC, owner = ? LIMIT 1`,
		inNumber, r.Owner).Scan(&owner); err != nil {
		return err
	}
	response, used, err := oldest(tx.QueryRowContext(ctx,
		`SELECT id, used FROM links WHERE id <> ? AND owner = ? ORDER BY next > 0, used LIMIT 1`, r.ID, owner))
	if err != nil {
		return err
	}
	conversation, usedThen, err := oldest(tx.QueryRowContext(ctx,
		`SELECT id, used FROM conversations WHERE id <> ? AND owner = ? ORDER BY used LIMIT 1`, r.Conversation, owner))
	switch {
	case err != nil:
		return err
	case response == "" && conversation == "":
		return ErrNoRoom
	case response == "" || conversation != "" && usedThen < used:
		_, err = removeConversation(ctx, tx, owner, conversation)
		return err
	}
	_, err = remove(ctx, tx, owner, response)
	return err
}

// oldest reads an id and the time of its last use; the id is empty if there is no row.
func oldest(row *sql.Row) (id string, used int64, err error) {
	if err = row.Scan(&id, &used); errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return id, used, err
}
