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
	"time"

	"codex-proxy/proxy/sqlite"
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

// Store is a file of responses. Two processes may use it at the same time. Its
// methods are safe for concurrent use.
type Store struct {
	db     *sql.DB // what writes waits for what writes alone
	reads  *sql.DB
	limits Limits
	log    *slog.Logger
}

// FileName is the database's name in the state directory.
const FileName = "responses.db"

// Check says why Open could not use the file at path, or nil.
func Check(ctx context.Context, path string) error { return sqlite.Check(ctx, path, len(steps)) }

// Open opens the file at path, and makes it if need be.
func Open(ctx context.Context, path string, limits Limits, log *slog.Logger) (*Store, error) {
	db, err := sqlite.Open(ctx, path, steps...)
	if err != nil {
		return nil, fmt.Errorf("cannot store responses: %w", err)
	}
	if err := link(ctx, db); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("cannot use %s: %w", path, err)
	}
	reads, err := sqlite.Readers(path)
	if err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("cannot store responses: %w", err)
	}
	return &Store{db: db, reads: reads, limits: limits, log: log}, nil
}

// Close closes the file.
func (s *Store) Close() error { return errors.Join(s.reads.Close(), s.db.Close()) }

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
	if r.size() > s.limits.Bytes {
		return fmt.Errorf("cannot store a response: %w", errNoRoom)
	}
	err := within(ctx, s.db, func(tx *sql.Tx) error {
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
	_, err := s.db.ExecContext(ctx, `UPDATE links SET used = max(used, ?) WHERE id = ? AND owner = ?`, time.Now().UnixMilli(), id, owner)
	return err
}
