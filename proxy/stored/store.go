// Package stored keeps responses for the clients that want to come back to
// them: in a file of the service's own, so that they outlive it and every
// worker, and go when their time is over.
package stored

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/internal/sqlite"
)

// Why something is not there.
var (
	// ErrNotFound means that there is no such response or item, or that it is
	// another owner's, or that its time is over.
	ErrNotFound = errors.New("not stored")
	// ErrBroken means that a response is there, but one before it is not.
	ErrBroken = errors.New("an earlier response of the chain is not stored any more")
	// ErrTooLong means that the history of a response is larger than any worker
	// would take.
	ErrTooLong = errors.New("the history is too long")

	// ErrUnavailable means that the file could not be opened yet, as on a full disk.
	ErrUnavailable = errors.New("the database of responses cannot be opened")

	errNoRoom = errors.New("it is too large for the limit of all responses together (response_storage)")
)

// MaxHistory bounds what is read of a chain, in bytes; codex takes messages of
// up to 64 MiB.
const MaxHistory = 60 << 20

// Limits say when responses go. The ones used longest ago go first, of the owner
// that has the most; to be continued is to be used.
type Limits struct {
	Retention time.Duration // after the last use
	Bytes     int64         // of all responses together
	Count     int
}

// Response is what is kept of one.
type Response struct {
	ID, Owner string // owner is the name of an API key
	Previous  string // id of the response that it continues; empty: none
	Worker    string // the worker that answered
	Object    []byte // JSON, as it was answered
	Input     []Item // without that of the responses before it
	Output    []Item
}

// Item is one item of input or output.
type Item struct {
	ID     string // empty: it cannot be referred to
	JSON   json.RawMessage
	Worker string // of output: the worker that made it
}

// Settings of a Store.
type Settings struct {
	Path     string
	Limits   Limits
	Registry prometheus.Registerer
	Logger   *slog.Logger
}

// Store is a file of responses. Two processes may use it at the same time. Its
// methods are safe for concurrent use. Until the file could be opened they return
// ErrUnavailable.
type Store struct {
	Settings

	failures prometheus.Counter
	opened   atomic.Pointer[file]
}

// file is the database.
type file struct {
	db    *sql.DB // what writes waits for what writes alone
	reads *sql.DB
}

// FileName is the database's name in the state directory.
const FileName = "responses.db"

// Check says why Open could not use the file at path, or nil.
func Check(ctx context.Context, path string) error { return sqlite.Check(ctx, path, len(steps)) }

// New builds a store and registers its metrics. It opens nothing: see Open.
func New(s Settings) *Store {
	return &Store{Settings: s, failures: newFailures(s.Registry)}
}

// Open opens the file, and makes it if need be. If it fails then Run goes on trying.
func (s *Store) Open(ctx context.Context) error {
	f, err := openFile(ctx, s.Path)
	if err != nil {
		s.failures.Inc()
		return fmt.Errorf("cannot store responses: %w", err)
	}
	s.opened.Store(f)
	return nil
}

func openFile(ctx context.Context, path string) (*file, error) {
	db, err := sqlite.Open(ctx, path, steps...)
	if err != nil {
		return nil, err
	}
	if err := link(ctx, db); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("cannot use %s: %w", path, err)
	}
	reads, err := sqlite.Readers(path)
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	return &file{db: db, reads: reads}, nil
}

// Close closes the file. Nothing may use the store any more.
func (s *Store) Close() error {
	f := s.opened.Load()
	if f == nil {
		return nil
	}
	return errors.Join(f.reads.Close(), f.db.Close())
}

// write runs f in a transaction that writes.
func (s *Store) write(ctx context.Context, f func(*sql.Tx) error) error {
	file := s.opened.Load()
	if file == nil {
		return ErrUnavailable
	}
	err := within(ctx, file.db, f)
	if err != nil && !expected(err) {
		s.failures.Inc()
	}
	return err
}

// read runs f in a transaction that sees one state of the file.
func (s *Store) read(ctx context.Context, f func(*sql.Tx) error) error {
	file := s.opened.Load()
	if file == nil {
		return ErrUnavailable
	}
	return within(ctx, file.reads, f)
}

// expected reports whether an error is no fault of the file.
func expected(err error) bool {
	for _, known := range []error{ErrNotFound, ErrBroken, ErrTooLong, ErrUnavailable, errNoRoom, sql.ErrNoRows, context.Canceled} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// within runs f in a transaction.
func within(ctx context.Context, db *sql.DB, f func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// Put stores r. When it returns nil, every process that has the file finds it.
// What there is no room for takes nobody else's. It is ErrNotFound or ErrBroken if
// what r continues is gone: r alone could not be continued. It costs the same however
// long the chain is.
func (s *Store) Put(ctx context.Context, r Response) error {
	if r.size() > s.Limits.Bytes {
		return fmt.Errorf("cannot store a response: %w", errNoRoom)
	}
	err := s.write(ctx, func(tx *sql.Tx) error {
		now := time.Now()
		if err := continuable(ctx, tx, r.Owner, r.Previous); err != nil {
			return err
		}
		if err := insert(ctx, tx, r, now); err != nil {
			return err
		}
		_, err := s.makeRoom(ctx, tx, r, now.Add(roomTime))
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot store a response: %w", err)
	}
	return nil
}

func (r *Response) size() int64 {
	size := len(r.Object)
	for _, items := range [][]Item{r.Input, r.Output} {
		for _, item := range items {
			size += len(item.JSON)
		}
	}
	return int64(size)
}

func insert(ctx context.Context, tx *sql.Tx, r Response, now time.Time) error {
	if _, err := tx.ExecContext(ctx, `INSERT INTO responses VALUES (?, ?, NULLIF(?, ''), ?, ?, ?, ?)`,
		r.ID, r.Owner, r.Previous, r.Worker, now.UnixMilli(), r.size(), r.Object); err != nil {
		return err
	}
	item, err := tx.PrepareContext(ctx, `INSERT INTO items VALUES (?, ?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	defer item.Close() //nolint:errcheck // the transaction says what fails
	position := 0
	for made, items := range [][]Item{r.Input, r.Output} {
		for _, i := range items {
			if _, err := item.ExecContext(ctx, r.ID, position, made, i.ID, []byte(i.JSON)); err != nil {
				return err
			}
			position++
		}
	}
	return nil
}

// continuable is nil if a response and all before it are there, or if there is no id.
func continuable(ctx context.Context, tx *sql.Tx, owner, id string) error {
	if id == "" {
		return nil
	}
	var broken bool
	err := tx.QueryRowContext(ctx, `SELECT broken FROM links WHERE id = ? AND owner = ?`, id, owner).Scan(&broken)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return ErrNotFound
	case broken:
		return ErrBroken
	}
	return err
}

// Renew makes a response as fresh as if one that continues it had been stored. Those
// before it stay as long as it does.
func (s *Store) Renew(ctx context.Context, owner, id string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE links SET used = max(used, ?) WHERE id = ? AND owner = ?`, time.Now().UnixMilli(), id, owner)
		return err
	})
}
