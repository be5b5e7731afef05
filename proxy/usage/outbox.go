package usage

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	"codex-proxy/internal/sqlite"
)

// Row is all that a database has of the usage of a period. A later one replaces it.
type Row struct {
	Period              string // a day, 2006-01-02, or an hour, 2006-01-02T15, in UTC
	Key, Model, Account string
	Source              string // identifies the database
	Counts

	change int64 // of the row
}

// unsentSchema lists rows that other hosts do not know of yet: their names, with a number that grows with each change
// of the row. A database that has no such table yet has sent nothing.
const unsentSchema = `
CREATE TABLE unsent (
	period TEXT NOT NULL, key TEXT NOT NULL, model TEXT NOT NULL, account TEXT NOT NULL, change INTEGER NOT NULL,
	PRIMARY KEY (period, key, model, account)
) WITHOUT ROWID;
CREATE TABLE source (id TEXT NOT NULL);
INSERT INTO unsent SELECT hour, key, model, account, 1 FROM hour_usage;
INSERT INTO unsent SELECT day, key, model, account, 1 FROM ` + withAccounts

// upsertUnsent records a change of a row.
const upsertUnsent = `INSERT INTO unsent VALUES (?, ?, ?, ?, 1) ON CONFLICT DO UPDATE SET change = change + 1`

// openUnsent makes the table of rows that are not sent.
func openUnsent(ctx context.Context, db *sql.DB) error {
	has, err := hasTable(ctx, db, "unsent")
	if err != nil || has {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	if _, err := tx.ExecContext(ctx, unsentSchema); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO source VALUES (?)", rand.Text()); err != nil {
		return err
	}
	return tx.Commit()
}

// insertUnsent records that a row has changed.
func insertUnsent(ctx context.Context, tx *sql.Tx, r row) error {
	_, err := tx.ExecContext(ctx, upsertUnsent, r.day, r.key, r.model, r.account)
	if err == nil {
		_, err = tx.ExecContext(ctx, upsertUnsent, r.hour, r.key, r.model, r.account)
	}
	return err
}

// Outbox has the rows of a database that other hosts do not know of yet, of all processes that write there. One
// goroutine may use it.
type Outbox struct {
	path string
	db   *sql.DB
}

// NewOutbox returns the outbox of the database at path, which a Store with Shared has to have opened before.
func NewOutbox(path string) *Outbox { return &Outbox{path: path} }

// Unsent returns at most so many rows, as they are now.
func (o *Outbox) Unsent(ctx context.Context, most int) ([]Row, error) {
	if err := o.open(ctx); err != nil {
		return nil, err
	}
	rows, err := o.names(ctx, most)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", o.path, err)
	}
	for i := range rows {
		if err := o.count(ctx, &rows[i]); err != nil && !errors.Is(err, sql.ErrNoRows) { // it was forgotten meanwhile
			return nil, fmt.Errorf("cannot read %s: %w", o.path, err)
		}
	}
	return rows, nil
}

func (o *Outbox) names(ctx context.Context, most int) (rows []Row, err error) {
	found, err := o.db.QueryContext(ctx,
		"SELECT period, key, model, account, change, id FROM unsent, source LIMIT ?", most)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var r Row
		if err := found.Scan(&r.Period, &r.Key, &r.Model, &r.Account, &r.change, &r.Source); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, found.Err()
}

// The counts of an hour; of a day; and of a day without a known account, which are a difference.
const (
	countsOfHour = `SELECT requests, input_tokens, cached_tokens, output_tokens, reasoning_tokens
		FROM hour_usage WHERE hour = ? AND key = ? AND model = ? AND account = ?`
	countsOfDay = `SELECT requests, input_tokens, cached_tokens, output_tokens, reasoning_tokens
		FROM account_usage WHERE day = ? AND key = ? AND model = ? AND account = ?`
	countsOfRest = `SELECT u.requests - ifnull(sum(a.requests), 0), u.input_tokens - ifnull(sum(a.input_tokens), 0),
			u.cached_tokens - ifnull(sum(a.cached_tokens), 0), u.output_tokens - ifnull(sum(a.output_tokens), 0),
			u.reasoning_tokens - ifnull(sum(a.reasoning_tokens), 0)
		FROM usage u LEFT JOIN account_usage a USING (day, key, model)
		WHERE u.day = ? AND u.key = ? AND u.model = ? AND ? = '' GROUP BY u.day`
)

// count reads the counts of a row.
func (o *Outbox) count(ctx context.Context, r *Row) error {
	query := countsOfDay
	switch {
	case len(r.Period) > len(time.DateOnly):
		query = countsOfHour
	case r.Account == "":
		query = countsOfRest
	}
	return o.db.QueryRowContext(ctx, query, r.Period, r.Key, r.Model, r.Account).Scan(
		&r.Requests, &r.InputTokens, &r.CachedTokens, &r.OutputTokens, &r.ReasoningTokens)
}

// Sent records that other hosts know of the rows. One that has changed meanwhile stays.
func (o *Outbox) Sent(ctx context.Context, rows []Row) error {
	if len(rows) == 0 {
		return nil
	}
	tx, err := o.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	for _, r := range rows {
		_, err := tx.ExecContext(ctx,
			"DELETE FROM unsent WHERE (period, key, model, account, change) = (?, ?, ?, ?, ?)",
			r.Period, r.Key, r.Model, r.Account, r.change)
		if err != nil {
			return err
		}
	}
	return tx.Commit()
}

// errNoOutbox is returned until the Store has opened the database.
var errNoOutbox = errors.New("the usage database is not open yet")

func (o *Outbox) open(ctx context.Context) error {
	if o.db != nil {
		return nil
	}
	if _, err := os.Stat(o.path); err != nil {
		return err
	}
	db, err := sqlite.Open(ctx, o.path, schema)
	if err != nil {
		return err
	}
	if has, err := hasTable(ctx, db, "unsent"); err != nil || !has {
		return errors.Join(err, errNoOutbox, db.Close())
	}
	o.db = db
	return nil
}

// Close closes the database.
func (o *Outbox) Close() {
	if o.db != nil {
		o.db.Close()
		o.db = nil
	}
}
