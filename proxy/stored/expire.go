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

// makeRoom forgets the responses used longest ago until the rest is within the
// limits, be it the one that was just stored.
func (s *Store) makeRoom(ctx context.Context, tx *sql.Tx) error {
	for {
		var count int
		var bytes int64
		if err := tx.QueryRowContext(ctx, `SELECT count, bytes FROM totals`).Scan(&count, &bytes); err != nil {
			return err
		}
		if count <= s.limits.Count && bytes <= s.limits.Bytes {
			return nil
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM responses WHERE id = (SELECT id FROM responses ORDER BY used LIMIT 1)`); err != nil {
			return err
		}
	}
}
