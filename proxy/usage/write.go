package usage

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"time"

	"codex-proxy/internal/sqlite"
)

// FileName is the database's name in the state directory.
const FileName = "usage.db"

const (
	// pause is what a write waits for more to come with it.
	pause = time.Second
	// retry is the pause after a failure: a full disk, most likely.
	retry = 10 * time.Second
	// writeBound is for one write; another process may hold the database for as
	// long as half of it.
	writeBound = 10 * time.Second
)

// schemas is how many steps the schema has.
const schemas = 1

const schema = `CREATE TABLE usage (
	day TEXT NOT NULL, key TEXT NOT NULL, model TEXT NOT NULL,
	requests INTEGER NOT NULL, input_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL,
	output_tokens INTEGER NOT NULL, reasoning_tokens INTEGER NOT NULL,
	PRIMARY KEY (day, key, model)
) WITHOUT ROWID`

const upsert = `INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
	requests = requests + excluded.requests, input_tokens = input_tokens + excluded.input_tokens,
	cached_tokens = cached_tokens + excluded.cached_tokens, output_tokens = output_tokens + excluded.output_tokens,
	reasoning_tokens = reasoning_tokens + excluded.reasoning_tokens`

// Load opens the database and reads what was used today. It is to be called
// before Run; if it fails then Run goes on trying, whether anything is added or not,
// and Today knows only what was added since. The caller logs the error.
func (s *Store) Load(ctx context.Context) error {
	err := s.write(ctx, nil)
	if s.failing = err != nil; s.failing {
		s.metrics.failures.Inc()
		s.touch()
	}
	return err
}

// Run writes what was added, a moment later, and the rest when ctx ends; then it
// returns nil. A failure is logged, and what was not written is tried again.
func (s *Store) Run(ctx context.Context) error {
	defer func() {
		if s.db != nil {
			_ = s.db.Close() // everything is written, or has failed
		}
	}()
	for {
		select {
		case <-ctx.Done():
		case <-s.dirty:
			wait(ctx, pause)
		}
		last := ctx.Err() != nil
		err := s.flush()
		switch {
		case last && err != nil && s.waits():
			s.Logger.Error("usage is lost, as the usage database cannot be written", "error", err)
		case err != nil && !s.failing:
			s.Logger.Error("cannot write the usage database; it is kept in memory and tried again", "error", err)
		}
		if last {
			return nil
		}
		if s.failing = err != nil; s.failing {
			wait(ctx, retry)
			s.touch()
		}
	}
}

// waits reports whether anything is not written.
func (s *Store) waits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting) > 0
}

func (s *Store) touch() {
	select {
	case s.dirty <- struct{}{}:
	default: // a token that nobody has taken yet covers this, too
	}
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// flush writes what waits now. It has a bound of its own: at the end of the
// service there is no later.
func (s *Store) flush() error {
	ctx, cancel := context.WithTimeout(context.Background(), writeBound)
	defer cancel()
	s.mu.Lock()
	rows := maps.Clone(s.waiting)
	s.mu.Unlock()
	err := s.write(ctx, rows)
	if err != nil {
		s.metrics.failures.Inc()
	}
	return err
}

// write adds rows to the database and reads what all processes have written for
// today.
func (s *Store) write(ctx context.Context, rows map[row]Counts) error {
	if s.Path == "" {
		s.wrote(rows, today(), nil)
		return nil
	}
	if s.db == nil {
		db, err := sqlite.Open(ctx, s.Path, schema)
		if err != nil {
			return err
		}
		s.db = db
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	day := today()
	totals, err := s.exchange(ctx, tx, rows, day)
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return err
	}
	s.wrote(rows, day, totals)
	return nil
}

// wrote takes rows off what waits, all or nothing of each having been written.
func (s *Store) wrote(rows map[row]Counts, day string, totals map[string]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if totals == nil { // without a database what was written is what was added
		totals = map[string]int64{}
		if s.day == day {
			totals = s.written
		}
		for r, c := range rows {
			if r.day == day {
				totals[r.key] += c.Tokens()
			}
		}
	}
	s.day, s.written, s.full = day, totals, false
	for r, c := range rows {
		if rest := s.waiting[r].minus(c); rest != (Counts{}) {
			s.waiting[r] = rest
		} else {
			delete(s.waiting, r)
		}
	}
}

func (c Counts) minus(o Counts) Counts {
	return c.plus(Counts{-o.Requests, -o.InputTokens, -o.CachedTokens, -o.OutputTokens, -o.ReasoningTokens})
}

func (s *Store) exchange(ctx context.Context, tx *sql.Tx, rows map[row]Counts, day string) (map[string]int64, error) {
	for r, c := range rows {
		if _, err := tx.ExecContext(ctx, upsert, r.day, r.key, r.model,
			c.Requests, c.InputTokens, c.CachedTokens, c.OutputTokens, c.ReasoningTokens); err != nil {
			return nil, fmt.Errorf("cannot write usage: %w", err)
		}
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM usage WHERE day <= ?", dayOf(time.Now().AddDate(0, 0, -s.Retention))); err != nil {
		return nil, fmt.Errorf("cannot forget old usage: %w", err)
	}
	found, err := tx.QueryContext(ctx, "SELECT key, sum(input_tokens + output_tokens) FROM usage WHERE day = ? GROUP BY key", day)
	if err != nil {
		return nil, fmt.Errorf("cannot read usage: %w", err)
	}
	defer found.Close()
	totals := map[string]int64{}
	for found.Next() {
		var key string
		var tokens int64
		if err := found.Scan(&key, &tokens); err != nil {
			return nil, fmt.Errorf("cannot read usage: %w", err)
		}
		totals[key] = tokens
	}
	return totals, found.Err()
}
