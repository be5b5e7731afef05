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
	// pause is how long a write waits for more rows.
	pause = time.Second
	// retry is the pause after a failure, such as a full disk.
	retry = 10 * time.Second
	// writeBound bounds one write; another process may hold the database for half of
	// it.
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

// accountSchema is a table in addition to the table of schema, and no step of it: an older program still counts in its
// own table. The difference of the two is usage of no known account.
const accountSchema = `CREATE TABLE IF NOT EXISTS account_usage (
	day TEXT NOT NULL, key TEXT NOT NULL, model TEXT NOT NULL, account TEXT NOT NULL,
	requests INTEGER NOT NULL, input_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL,
	output_tokens INTEGER NOT NULL, reasoning_tokens INTEGER NOT NULL,
	PRIMARY KEY (day, key, model, account)
) WITHOUT ROWID`

// hourSchema is a further table in addition, of the last hourDays days.
const hourSchema = `CREATE TABLE IF NOT EXISTS hour_usage (
	hour TEXT NOT NULL, key TEXT NOT NULL, model TEXT NOT NULL, account TEXT NOT NULL,
	requests INTEGER NOT NULL, input_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL,
	output_tokens INTEGER NOT NULL, reasoning_tokens INTEGER NOT NULL,
	PRIMARY KEY (hour, key, model, account)
) WITHOUT ROWID`

// hourDays is how many days have hours, today included.
const hourDays = 7

const (
	upsertHour    = `INSERT INTO hour_usage VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)` + adding
	upsert        = `INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?, ?, ?)` + adding
	upsertAccount = `INSERT INTO account_usage VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)` + adding
)

const adding = ` ON CONFLICT DO UPDATE SET
	requests = requests + excluded.requests, input_tokens = input_tokens + excluded.input_tokens,
	cached_tokens = cached_tokens + excluded.cached_tokens, output_tokens = output_tokens + excluded.output_tokens,
	reasoning_tokens = reasoning_tokens + excluded.reasoning_tokens`

// Load opens the database and reads the usage of today. It is to be called before Run.
// If it fails, Run tries again, with or without new usage, and until then Today counts
// only the usage since. The caller logs the error.
func (s *Store) Load(ctx context.Context) error {
	err := s.write(ctx, nil)
	if s.failing = err != nil; s.failing {
		s.metrics.failures.Inc()
		s.touch()
	}
	return err
}

// Run writes added usage a moment later, and the rest when ctx ends; then it returns
// nil. It logs a failure and tries again.
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
	default: // the token that waits covers this, too
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

// flush writes the rows that wait now. It has a bound of its own: at the end of the
// service there is no later try.
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

// write adds rows to the database and reads the usage of today, of all processes.
func (s *Store) write(ctx context.Context, rows map[row]Counts) error {
	if s.Path == "" {
		s.wrote(rows, today(), nil)
		return nil
	}
	if s.db == nil {
		db, err := open(ctx, s.Path)
		if err != nil {
			return err
		}
		if s.Shared {
			if err := openUnsent(ctx, db); err != nil {
				_ = db.Close()
				return fmt.Errorf("cannot use %s: %w", s.Path, err)
			}
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

func open(ctx context.Context, path string) (*sql.DB, error) {
	db, err := sqlite.Open(ctx, path, schema)
	if err != nil {
		return nil, err
	}
	for _, table := range []string{accountSchema, hourSchema} {
		if _, err := db.ExecContext(ctx, table); err != nil {
			_ = db.Close()
			return nil, fmt.Errorf("cannot use %s: %w", path, err)
		}
	}
	return db, nil
}

// wrote removes written rows from those that wait.
func (s *Store) wrote(rows map[row]Counts, day string, totals map[string]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if totals == nil { // without a database, added rows count as written
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

// exchange adds rows, deletes the rows beyond Retention, and returns the tokens of the day.
func (s *Store) exchange(ctx context.Context, tx *sql.Tx, rows map[row]Counts, day string) (map[string]int64, error) {
	for r, c := range rows {
		if err := insert(ctx, tx, r, c); err != nil {
			return nil, fmt.Errorf("cannot write usage: %w", err)
		}
		if s.Shared {
			if err := insertUnsent(ctx, tx, r); err != nil {
				return nil, fmt.Errorf("cannot write usage: %w", err)
			}
		}
	}
	last := dayOf(s.clock.Now().AddDate(0, 0, -s.Retention))
	for _, table := range []string{"usage", "account_usage"} {
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE day <= ?", last); err != nil {
			return nil, fmt.Errorf("cannot forget old usage: %w", err)
		}
	}
	first := dayOf(s.clock.Now().AddDate(0, 0, 1-min(s.Retention, hourDays)))
	if _, err := tx.ExecContext(ctx, "DELETE FROM hour_usage WHERE hour < ?", first); err != nil {
		return nil, fmt.Errorf("cannot forget old usage: %w", err)
	}
	return tokensOf(ctx, tx, day)
}

// insert adds a row to all tables. A row of no known account is their difference.
func insert(ctx context.Context, tx *sql.Tx, r row, c Counts) error {
	numbers := []any{c.Requests, c.InputTokens, c.CachedTokens, c.OutputTokens, c.ReasoningTokens}
	_, err := tx.ExecContext(ctx, upsert, append([]any{r.day, r.key, r.model}, numbers...)...)
	if err == nil && r.account != "" {
		_, err = tx.ExecContext(ctx, upsertAccount, append([]any{r.day, r.key, r.model, r.account}, numbers...)...)
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, upsertHour, append([]any{r.hour, r.key, r.model, r.account}, numbers...)...)
	}
	return err
}

// tokensOf is how many tokens each key has used on a day.
func tokensOf(ctx context.Context, tx *sql.Tx, day string) (map[string]int64, error) {
	found, err := tx.QueryContext(ctx,
		"SELECT key, sum(input_tokens + output_tokens) FROM usage WHERE day = ? GROUP BY key", day)
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
