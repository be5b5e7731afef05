package stored

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// roomTime is how long Put keeps others from writing to make room for its response.
const roomTime = time.Second

// makeRoom deletes responses until the rest is within the limits: the owner with the
// most loses the one used longest ago, so that no owner fills the file at the expense of
// others. Of a chain the last response is deleted first. There is no room for r if r
// alone exceeds the limits. makeRoom stops at until, and the sweep goes on: a
// transaction that takes too long would fail, and so would each after it.
func (s *Store) makeRoom(ctx context.Context, tx *sql.Tx, r Response, until time.Time) (room bool, err error) {
	for {
		var count int
		var bytes int64
		if err := tx.QueryRowContext(ctx, `SELECT count, bytes FROM totals`).Scan(&count, &bytes); err != nil {
			return false, err
		}
		if count <= s.Limits.Count && bytes <= s.Limits.Bytes {
			return true, nil
		}
		var owner, id string
		err := tx.QueryRowContext(ctx, `SELECT owner, id FROM links WHERE id <> ? AND owner =
			(SELECT owner FROM owners ORDER BY CASE ? WHEN 1 THEN count ELSE bytes END DESC, owner = ? LIMIT 1)
			ORDER BY next > 0, used LIMIT 1`,
			r.ID, count > s.Limits.Count, r.Owner).Scan(&owner, &id)
		if errors.Is(err, sql.ErrNoRows) {
			err = ErrNoRoom
		}
		if err != nil {
			return false, err
		}
		if _, err := remove(ctx, tx, owner, id); err != nil {
			return false, err
		}
		if !time.Now().Before(until) {
			return false, nil
		}
	}
}
