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

// Open opens the database at path, creates it if need be, and brings its schema up to
// date. schema holds one step for each version, in order, and may only grow at its
// end. Two processes may have the same file open, as during a reload: each waits up
// to 5 seconds for the write of the other process.
// Source: https://www.sqlite.org/pragma.html and wal.html.
func Open(ctx context.Context, path string, schema ...string) (*sql.DB, error) {
	// SQLite gives its journals the mode of the database.
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
	// SQLite allows one writer at a time. With one connection, writers of this process
	// queue for it and do not contend.
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
	// maxReaders bounds the connections that read. Each has a cache of up to 2 MiB and
	// three open files.
	maxReaders = 4
	// readerIdle is how long one of them stays open for the next reader.
	readerIdle = 10 * time.Second
)

// Readers are connections that read a database which Open has opened. They work at the same time as the one that
// writes: in WAL mode neither waits for the other, and a transaction sees all that was written before it began. They
// are opened on demand.
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

// migrate applies the steps that the file lacks; user_version counts the applied ones.
// If it lacks none, migrate neither writes, as the disk may be full, nor waits for a
// writer.
func migrate(ctx context.Context, db *sql.DB, schema []string) error {
	if version, err := applied(ctx, db, len(schema)); err != nil || version == len(schema) {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	// Read the version again: another process may have been faster.
	version, err := applied(ctx, tx, len(schema))
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

// applied is how many of the known steps the file has had.
func applied(ctx context.Context, from interface {
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

// ErrNewer is of a file of a newer version of the program.
var ErrNewer = errors.New("it was written by a newer version")

func newer(version, steps int) error {
	return fmt.Errorf("%w (schema %d, this one knows %d); install that version, or move the file away", ErrNewer,
		version, steps)
}

// Check returns the reason why Open could not use the database at path with that many
// steps, or nil. It writes nothing, not even a journal, and reads only the head of the
// file.
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
	if _, err := applied(ctx, db, steps); err != nil {
		return fmt.Errorf("cannot use it: %w", err)
	}
	return nil
}

// OpenForeign opens an existing database of another program. Its schema and settings stay as they are.
func OpenForeign(path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", dsn(path, url.Values{"mode": {"rw"}, "_pragma": {"busy_timeout(5000)"}}))
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", path, err)
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// OpenReadOnly opens an existing database for reading. version is the schema that the
// caller knows. Root may use it on the file of any user: SQLite gives the journals
// that it creates to the owner of the database.
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
		err = errors.New("nothing could be written to it yet: is the disk full? " +
			"Once there is room, the running service begins it by itself")
	case found < version:
		err = errors.New("it was written by an older version; start the service, which brings it up to date")
	case found > version:
		err = newer(found, version)
	}
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("cannot use %s: %w", path, err)
	}
	return db, nil
}
