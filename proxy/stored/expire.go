package stored

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

const (
	// retry is the pause between tries to open the file: a disk is full, most likely.
	retry = 10 * time.Second
	// openBound is for one of them: a file of before may get new tables then.
	openBound = time.Minute
	// sweepEvery is how late a response may go, apart from its last use.
	sweepEvery = time.Minute
	// batch bounds how many responses go in one transaction, which nobody can
	// write beside.
	batch = 100
	// moment is how long the sweep keeps others from writing while it makes room,
	// or waits for those who read.
	moment = 100 * time.Millisecond
	// roomTime is how long one that is stored does so to make room for itself.
	roomTime = time.Second
	// maxJournal is the size in pages, 64 MiB, from which on the journal matters
	// more than that.
	maxJournal = 64 << 20 / 4096
)

// Run opens the file if it is not open yet, and forgets responses whose time is over,
// and those beyond the limits, which an operator may have lowered, until ctx ends; then
// it returns nil. What fails is logged once and tried again: the file is bounded in size
// in any case.
func (s *Store) Run(ctx context.Context) error {
	if !s.reopen(ctx) {
		return nil
	}
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	failing := false
	for {
		err := s.sweep(ctx, time.Now())
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

// reopen tries to open the file until it is open, which it returns, or ctx ends.
func (s *Store) reopen(ctx context.Context) bool {
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

func (s *Store) sweep(ctx context.Context, now time.Time) error {
	for gone := batch; gone == batch; {
		if err := s.write(ctx, func(tx *sql.Tx) (err error) {
			gone, err = expire(ctx, tx, now.Add(-s.Limits.Retention))
			return err
		}); err != nil {
			return err
		}
	}
	for room := false; !room; {
		if err := s.write(ctx, func(tx *sql.Tx) (err error) {
			room, err = s.makeRoom(ctx, tx, Response{}, time.Now().Add(moment))
			return err
		}); err != nil {
			return err
		}
	}
	return s.beginJournal(ctx)
}

// expire forgets up to batch responses that nothing continues and that were last used
// before then, and what they leave without a continuation.
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

// beginJournal writes what is in the journal into the database, and begins it anew.
// While somebody always reads what was just written, that never happens by itself.
// This waits for those who do, which nobody can write beside; who comes then reads
// the database. So it waits for a moment only, until the journal is large.
func (s *Store) beginJournal(ctx context.Context) error {
	conn, err := s.opened.Load().db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // it goes back to its pool
	var patience int64
	if err := conn.QueryRowContext(ctx, `PRAGMA busy_timeout`).Scan(&patience); err != nil {
		return err
	}
	if err := wait(ctx, conn, moment.Milliseconds()); err != nil {
		return err
	}
	busy, pages, err := checkpoint(ctx, conn)
	if err := errors.Join(err, wait(ctx, conn, patience)); err != nil {
		return err
	}
	if busy && pages > maxJournal {
		_, _, err = checkpoint(ctx, conn)
	}
	return err
}

// wait sets how long a connection waits for others, in milliseconds. It does so when
// ctx has ended, too: what is stored after that waits as always.
func wait(ctx context.Context, conn *sql.Conn, milliseconds int64) error {
	_, err := conn.ExecContext(context.WithoutCancel(ctx), fmt.Sprintf(`PRAGMA busy_timeout = %d`, milliseconds))
	return err
}

// checkpoint returns whether somebody was in the way, and the pages in the journal.
func checkpoint(ctx context.Context, conn *sql.Conn) (busy bool, pages int, err error) {
	var written int
	err = conn.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &pages, &written)
	return busy, pages, err
}

// makeRoom forgets responses until the rest is within the limits: the owner that
// has the most loses the one used longest ago, so that nobody fills the file at
// the expense of others. Of a chain the last one goes first. If r alone is too much, there is no room for it. After
// until the sweep is to go on with it: a transaction that takes too long would come
// to nothing, and so would each after it.
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
			(SELECT owner FROM owners ORDER BY CASE ? WHEN 1 THEN count ELSE bytes END DESC, owner = ? LIMIT 1) ORDER BY next > 0, used LIMIT 1`,
			r.ID, count > s.Limits.Count, r.Owner).Scan(&owner, &id)
		if errors.Is(err, sql.ErrNoRows) {
			err = errNoRoom
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
