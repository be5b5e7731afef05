package stored

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

const (
	// retry is the pause between tries to open the file, for instance on a full disk.
	retry = 10 * time.Second
	// openBound bounds one try: an old file may get new tables then.
	openBound = time.Minute
	// sweepEvery is the interval of sweeps: a response may be deleted that much late.
	sweepEvery = time.Minute
	// batch bounds how many responses one transaction deletes: it keeps other
	// processes from writing.
	batch = 100
	// moment is how long the sweep keeps others from writing while it makes room, or
	// waits for readers.
	moment = 100 * time.Millisecond
)

// Run opens the file if it is not open yet, and deletes the responses after their retention, and responses beyond the
// limits, which an operator may have lowered, until ctx ends; then it returns nil. At first it removes the events that
// a crash has left. It logs a failure once and tries again: the size of the file is bounded in any case.
func (s *File) Run(ctx context.Context) error {
	if !s.reopen(ctx) {
		return nil
	}
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	failing, swept := false, false
	for {
		err := s.sweep(ctx, s.clock.Now())
		if err == nil && !swept {
			err = s.removeOrphans(ctx)
			swept = err == nil
		}
		if err != nil && ctx.Err() == nil && !failing {
			s.Logger.Error("cannot forget old responses", "error", err)
		}
		failing = err != nil
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// reopen tries to open the file until it is open or ctx ends, and reports whether it is
// open.
func (s *File) reopen(ctx context.Context) bool {
	if s.opened.Load() != nil {
		return true
	}
	ticker := time.NewTicker(retry)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return false
		}
		bounded, cancel := context.WithTimeout(ctx, openBound)
		err := s.Open(bounded)
		cancel()
		if err == nil {
			s.Logger.Info("responses are kept again")
			return true
		}
	}
}

func (s *File) sweep(ctx context.Context, now time.Time) error {
	for gone := batch; gone == batch; {
		if err := s.write(ctx, func(tx *sql.Tx) (err error) {
			gone, err = expire(ctx, tx, now.Add(-s.Limits.Retention))
			return err
		}); err != nil {
			return err
		}
	}
	if err := s.expireConversations(ctx, now.Add(-s.Limits.Retention)); err != nil {
		return err
	}
	for room := false; !room; {
		if err := s.write(ctx, func(tx *sql.Tx) (err error) {
			room, err = s.makeRoom(ctx, tx, Response{}, time.Now().Add(moment))
			return err
		}); err != nil {
			return err
		}
	}
	if err := s.removeLogs(ctx); err != nil {
		return err
	}
	return s.truncateJournal(ctx)
}

// expire deletes up to batch responses that no other continues and that were last used
// before then, and those that they leave without a continuation.
func expire(ctx context.Context, tx *sql.Tx, then time.Time) (gone int, err error) {
	for gone < batch {
		result, err := tx.ExecContext(ctx, `DELETE FROM responses WHERE id IN
			(SELECT id FROM links WHERE next = 0 AND used < ? ORDER BY used LIMIT ?)`, then.UnixMilli(), batch-gone)
		if err != nil {
			return 0, err
		}
		n, err := result.RowsAffected()
		if gone += int(n); err != nil || n == 0 {
			return gone, err
		}
	}
	return gone, nil
}

// expireConversations deletes the conversations that were last used before then, one in a transaction: each may be
// large.
func (s *File) expireConversations(ctx context.Context, then time.Time) error {
	for gone := true; gone; {
		if err := s.write(ctx, func(tx *sql.Tx) error {
			var owner, id string
			err := tx.QueryRowContext(ctx, `SELECT owner, id FROM conversations WHERE used < ? ORDER BY used LIMIT 1`,
				then.UnixMilli()).Scan(&owner, &id)
			if gone = !errors.Is(err, sql.ErrNoRows); err != nil && gone {
				return err
			}
			_, err = removeConversation(ctx, tx, owner, id)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}
