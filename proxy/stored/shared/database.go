package shared

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"codex-proxy/internal/postgres"
	"codex-proxy/proxy/stored"
)

const (
	// bytesASecond is for how many bytes a call gets a second more.
	bytesASecond  = 2 << 20
	conflictTries = 3
)

// database is the database of several hosts.
type database struct {
	pool  *postgres.Pool
	bound atomic.Int64 // of a call, a time.Duration
	host  string       // the name of this host
	// steady reports whether this host has asked the database long enough without a gap to take another for lost.
	steady func() bool
	// spread is how much longer to wait between two probes.
	spread func() time.Duration
	// foreign reports whether this host must not use the database.
	foreign func() bool
}

// do calls work, which may be called several times, with a bound for so many bytes. The error is
// stored.ErrUnavailable if the database cannot be used, and stored.ErrNotFound instead of pgx.ErrNoRows.
func (d *database) do(ctx context.Context, bytes int64, work func(context.Context, *pgx.Conn) error) (err error) {
	if d.foreign() {
		return fmt.Errorf("%w: this host has not joined the others", stored.ErrUnavailable)
	}
	for range conflictTries {
		err = d.pool.Do(ctx, d.patience()+time.Duration(bytes/bytesASecond)*time.Second, work)
		if !inTheWay(err) {
			break
		}
	}
	switch {
	case errors.Is(err, postgres.ErrAway), inTheWay(err), isCode(err, "57014"): // it took too long
		return fmt.Errorf("%w: %w", stored.ErrUnavailable, err)
	case errors.Is(err, pgx.ErrNoRows):
		return stored.ErrNotFound
	}
	return err
}

// probeEvery is how often a database is tried that does not answer.
const probeEvery = 500 * time.Millisecond

// probeAll tries the database while it does not answer, until ctx ends: no other call waits for it then.
func (d *database) probeAll(ctx context.Context) {
	for {
		timer := time.NewTimer(probeEvery + d.spread())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		if d.pool.Away() != nil {
			_ = d.pool.Probe(ctx, d.patience())
		}
	}
}

// patience is how long a call waits for the database.
func (d *database) patience() time.Duration { return time.Duration(d.bound.Load()) }

// isCode reports whether the code of an error of the server begins with prefix.
func isCode(err error, prefix string) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && strings.HasPrefix(refused.Code, prefix)
}

// inTheWay reports whether another transaction was in the way.
func inTheWay(err error) bool { return isCode(err, "40") || isCode(err, "55P03") }

// up reports whether a call would reach the server, as far as this host knows.
func (d *database) up() bool { return !d.foreign() && d.pool.Away() == nil }

// row reads one row. The error is stored.ErrNotFound if no row is found.
func (d *database) row(ctx context.Context, sql string, args []any, dest ...any) error {
	if !storable(args) {
		return stored.ErrNotFound
	}
	return d.do(ctx, 0, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, sql, args...).Scan(dest...)
	})
}

// rows calls each for each row, which scan reads. reset is called before the first. Rows of so many bytes may take
// longer, as long as they come.
func (d *database) rows(ctx context.Context, bytes int64, sql string, args []any, reset func(),
	each func(pgx.Rows) error) error {
	if !storable(args) {
		return stored.ErrNotFound
	}
	return d.do(ctx, bytes, func(ctx context.Context, conn *pgx.Conn) error {
		reset()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		silence := time.AfterFunc(d.patience(), cancel)
		defer silence.Stop()
		rows, err := conn.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			silence.Reset(d.patience())
			if err := each(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// batch runs the statements that fill queues in one transaction, and one round trip. fill may be called several times.
func (d *database) batch(ctx context.Context, bytes int64, fill func(*pgx.Batch)) error {
	return d.do(ctx, bytes, func(ctx context.Context, conn *pgx.Conn) error {
		batch := &pgx.Batch{}
		fill(batch)
		for _, q := range batch.QueuedQueries {
			if !storable(q.Arguments) {
				return pgx.ErrNoRows
			}
		}
		return conn.SendBatch(ctx, batch).Close()
	})
}

// storable reports whether the texts among the arguments can be in the database: no id is another one.
func storable(args []any) bool {
	for _, arg := range args {
		if text, ok := arg.(string); ok && (strings.ContainsRune(text, 0) || !utf8.ValidString(text)) {
			return false
		}
	}
	return true
}

// changed counts the rows that a statement changes.
func changed(n *int64) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		*n = tag.RowsAffected()
		return nil
	}
}

// scan reads the row of a statement.
func scan(dest ...any) func(pgx.Row) error {
	return func(row pgx.Row) error { return row.Scan(dest...) }
}
