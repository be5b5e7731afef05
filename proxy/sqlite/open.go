// Package sqlite opens the databases of the service: one file each in its state
// directory, readable by the service alone, with a schema that grows by steps.
package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"

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
	db, err := sql.Open("sqlite", dsn(path))
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

func dsn(path string) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + url.Values{
		"_txlock": {"immediate"},
		"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(NORMAL)", "foreign_keys(ON)"},
	}.Encode()
}

// migrate takes the steps that the file has not had; user_version counts them.
func migrate(ctx context.Context, db *sql.DB, schema []string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	var version int
	if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if version > len(schema) {
		return fmt.Errorf("it was written by a newer codex-proxy (schema %d, this one knows %d); install that version, or move the file away", version, len(schema))
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

// OpenReadOnly opens a database that is there, for reading. version is the
// schema that the caller knows. Root may use it whoever owns the file: SQLite
// gives the journals it may have to make to the owner of the database.
func OpenReadOnly(ctx context.Context, path string, version int) (*sql.DB, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("cannot open the database: %w", err)
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+url.Values{
		"mode": {"ro"}, "_pragma": {"busy_timeout(5000)"},
	}.Encode())
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", path, err)
	}
	var found int
	if err = db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&found); err == nil && found != version {
		err = fmt.Errorf("its schema is %d, and this codex-proxy knows %d", found, version)
	}
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("cannot use %s: %w", path, err)
	}
	return db, nil
}
