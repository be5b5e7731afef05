// Package store keeps the state of codex-runner in one SQLite file of the daemon: sessions and their commands,
// workspaces and their leases. It decides nothing. The unit and the files of a running command have its state; the
// store has the state that the daemon has last seen.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"codex-proxy/internal/sqlite"
)

// The reasons why the file cannot be opened, or a session or a command cannot be read or changed.
var (
	// ErrNotFound means that the object does not exist, or that the viewer may not see it.
	ErrNotFound = errors.New("there is no such session or command")
	// ErrState means that it is not in the state that the change needs.
	ErrState = errors.New("the session or command is in another state")
	// ErrNewer means that a newer version of the program has written the file.
	ErrNewer = sqlite.ErrNewer
)

// FileName is the name of the database in the state directory.
const FileName = "runner.db"

// Store is the file, by the things that it has. All methods are safe for concurrent use: the database has the only
// lock, which a transaction that writes holds.
type Store struct {
	*file

	Sessions     Sessions
	Commands     Commands
	Artifacts    Artifacts
	Workspaces   Workspaces
	Repositories Repositories
	Environments Environments
}

// The things in the file.
type (
	// Sessions are the sessions, and the homes of closed ones until they are removed.
	Sessions struct{ *file }
	// Commands are the commands of sessions.
	Commands struct{ *file }
	// Artifacts are the files that commands have left.
	Artifacts struct{ *file }
	// Workspaces are the workspaces and their leases.
	Workspaces struct{ *file }
	// Repositories are the mirrors with their origins.
	Repositories struct{ *file }
	// Environments are the environments, and the facts of the tools that they are made with.
	Environments struct{ *file }
)

type file struct {
	db    *sql.DB // writers wait for each other, and for no reader
	reads *sql.DB
}

// Open opens the file at path, creates it if need be, and brings its schema up to date.
func Open(ctx context.Context, path string) (*Store, error) {
	db, err := sqlite.Open(ctx, path, steps...)
	if err != nil {
		return nil, err
	}
	reads, err := sqlite.Readers(path)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	f := &file{db: db, reads: reads}
	return &Store{f, Sessions{f}, Commands{f}, Artifacts{f}, Workspaces{f}, Repositories{f}, Environments{f}}, nil
}

// Close closes the file. The store must not be used after it.
func (s *Store) Close() error { return errors.Join(s.reads.Close(), s.db.Close()) }

// write does something in a transaction that writes.
func (f *file) write(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := f.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("cannot write to the store: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// nanos is a time as the file has it: nanoseconds since 1970, 0 for the zero time.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// at is the inverse of nanos, in UTC.
func at(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos).UTC()
}

// changed returns ErrState if a statement has changed nothing.
func changed(result sql.Result, err error) error {
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return ErrState
}
