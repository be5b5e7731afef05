// Package sqlite opens the databases of the service: one file each in its state
// directory, readable by the service alone, with a schema that grows by steps.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	_ "modernc.org/sqlite" // the driver, in Go: the program stays static
)

// Open opens the database at path, and makes it if need be, and brings its
// schema up to date: schema holds one step for each version, in order, and may
// only ever grow at its end. Two processes may have the same file open, as they
// do during a reload: each waits for the other's write for as long as 5 seconds.
// Source: https://www.sqlite.org/pragma.html and wal.html.
func Open(ctx context.Context, path string, schema ...string) (*sql.DB, error) {
	// SQLite gives its journals the mode of the database, so this decides for all.
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the database: %w", err)
	}
	file.Close()
	db, err := sql.Open("sqlite", dsn(path, url.Values{
		"_txlock": {"immediate"},
		"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(NORMAL)", "foreign_keys(ON)"},
	}))
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", path, err)
	}
	// One writer at a time is SQLite's rule; one connection makes it a queue of
	// ours rather than a contention.
	db.SetMaxOpenConns(1)
	if err := migrate(ctx, db, schema); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("cannot use %s: %w", path, err)
	}
	return db, nil
}

func dsn(path string, options url.Values) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + options.Encode()
}

const (
	// maxReaders bounds the connections that read, each of which has a cache of up
	// to 2 MiB and three files.
	maxReaders = 4
	// readerIdle is how long one of them is kept for the next reader.
	readerIdle = 10 * time.Second
)

// Readers are connections that read a database which Open has opened, beside the
// one that writes: in its journal's mode neither waits for the other, and a
// transaction sees all that was written before it began. They are made when they
// are needed.
func Readers(path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", dsn(path, readOnly))
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", path, err)
	}
	db.SetMaxOpenConns(maxReaders)
	db.SetConnMaxIdleTime(readerIdle)
	return db, nil
}

var readOnly = url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(5000)"}}

// migrate takes the steps that the file has not had; user_version counts them. If
// there are none, it neither writes, for which there may be no space, nor waits for
// who does.
func migrate(ctx context.Context, db *sql.DB, schema []string) error {
	if version, err := taken(ctx, db, len(schema)); err != nil || version == len(schema) {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	// Once more: another process may have been faster.
	version, err := taken(ctx, tx, len(schema))
	if err != nil {
		return err
	}
	for _, step := range schema[version:] {
		if _, err := tx.ExecContext(ctx, step); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", len(schema))); err != nil {
		return err
	}
	return tx.Commit()
}

// taken is how many steps the file has had, of those that are known.
func taken(ctx context.Context, from interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, steps int) (version int, err error) {
	if err := from.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return 0, err
	}
	if version > steps {
		return 0, newer(version, steps)
	}
	return version, nil
}

func newer(version, steps int) error {
	return fmt.Errorf("it was written by a newer codex-proxy (schema %d, this one knows %d); install that version, or move the file away", version, steps)
}

// Check says why Open could not use the database at path with that many steps, or nil.
// It writes nothing, not even a journal, and reads no more than the head of the file.
func Check(ctx context.Context, path string, steps int) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	file.Close()
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?mode=ro&immutable=1")
	if err != nil {
		return fmt.Errorf("cannot use it: %w", err)
	}
	defer db.Close()
	if _, err := taken(ctx, db, steps); err != nil {
		return fmt.Errorf("cannot use it: %w", err)
	}
	return nil
}

// OpenReadOnly opens a database that is there, for reading. version is the
// schema that the caller knows. Root may use it whoever owns the file: SQLite
// gives the journals it may have to make to the owner of the database.
func OpenReadOnly(ctx context.Context, path string, version int) (*sql.DB, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("cannot open the database: %w", err)
	}
	db, err := sql.Open("sqlite", dsn(path, readOnly))
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", path, err)
	}
	var found int
	err = db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&found)
	switch {
	case err != nil:
	case found == 0:
		err = errors.New("nothing could be written to it yet: is the disk full? Once there is room, the running service begins it by itself")
	case found < version:
		err = errors.New("it was written by an older codex-proxy; start the service, which brings it up to date")
	case found > version:
		err = newer(found, version)
	}
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("cannot use %s: %w", path, err)
	}
	return db, nil
}
