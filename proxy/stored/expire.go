package stored

import (
	"context"
	"database/sql"
	"time"
)

const (
	// sweepEvery is how late a response may go, apart from its last use.
	sweepEvery = time.Minute
	// batch bounds how many responses go in one transaction, which nobody can
	// write beside.
	batch = 100
)

// Run forgets responses whose time is over until ctx ends; then it returns nil.
// What fails is logged and tried again: the file is bounded in size in any case.
func (s *Store) Run(ctx context.Context) error {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		if err := s.sweep(ctx, time.Now()); err != nil && ctx.Err() == nil {
			s.log.Error("cannot forget old responses", "error", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *Store) sweep(ctx context.Context, now time.Time) error {
	for {
		result, err := s.db.ExecContext(ctx, `DELETE FROM responses WHERE id IN
			(SELECT id FROM responses WHERE used < ? ORDER BY used LIMIT ?)`, now.Add(-s.limits.Retention).UnixMilli(), batch)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n < batch {
			return err
		}
	}
}

// makeRoom forgets responses until the rest is within the limits: the owner that
// has the most loses the one used longest ago, so that nobody fills the file at
// the expense of others. If r alone is too much, there is no room for it.
func (s *Store) makeRoom(ctx context.Context, tx *sql.Tx, r Response) error {
	for {
		var count int
		var bytes int64
		if err := tx.QueryRowContext(ctx, `SELECT count, bytes FROM totals`).Scan(&count, &bytes); err != nil {
			return err
		}
		if count <= s.limits.Count && bytes <= s.limits.Bytes {
			return nil
		}
		result, err := tx.ExecContext(ctx, `DELETE FROM responses WHERE id = (SELECT id FROM responses WHERE id <> ? AND owner =
			(SELECT owner FROM owners ORDER BY CASE ? WHEN 1 THEN count ELSE bytes END DESC, owner = ? LIMIT 1) ORDER BY used LIMIT 1)`,
			r.ID, count > s.limits.Count, r.Owner)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil {
			return err
		} else if n == 0 {
			return errNoRoom
		}
	}
}
