// Package stored keeps responses for clients that continue or retrieve them: in a
// database of the service, so that they outlive the service and every worker, until
// their retention is over.
package stored

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/internal/sqlite"
	"codex-proxy/internal/steady"
	"codex-proxy/proxy/eventlog"
)

// The reasons why a response or an item cannot be read.
var (
	// ErrNotFound means that there is no such response or item, that it belongs to
	// another owner, or that its retention is over.
	ErrNotFound = errors.New("not stored")
	// ErrBroken means that the response is stored, but its input or one before it is not.
	ErrBroken = errors.New("its input, or an earlier response of the chain, is not stored")
	// ErrTooLong means that the history of a response is larger than any worker
	// accepts.
	ErrTooLong = errors.New("the history is too long")

	// ErrUnavailable means that the file could not be opened yet, as on a full disk, or that the database of several
	// hosts does not answer.
	ErrUnavailable = errors.New("the database of responses cannot be used")
	// ErrApart means that a response can be stored only with its whole history as its input: the database that has
	// the response before it does not answer.
	ErrApart = errors.New("the response before it cannot be reached")
	// ErrElsewhere means that the events of a response are on another host until its end.
	ErrElsewhere = errors.New("another host runs the response")

	// ErrNoRoom means that a response or a conversation is larger than all together may be.
	ErrNoRoom = errors.New("it is too large for the limit of all responses together (response_storage)")
)

// MaxHistory bounds the items of a chain, in bytes; codex accepts messages of up to
// 64 MiB.
const MaxHistory = 60 << 20

// Limits bound the stored responses and conversations. Beyond them the owner with the most responses and conversations
// loses the one used longest ago. To continue a response is to use it.
type Limits struct {
	Retention time.Duration // after the last use
	Bytes     int64         // of all responses and conversations together
	Count     int
}

// Response is one stored response.
type Response struct {
	ID, Owner string // the owner is the name of an API key
	Previous  string // id of the response that it continues; empty: none
	Worker    string // the worker that answered
	Object    []byte // JSON, as it was sent
	Input     []Item // without the input of the responses before it
	Output    []Item
	Log       int64 // bytes of the log of its events, which count for it

	// Conversation is the id of the conversation before Input; empty: there is no conversation, and there may be a
	// Previous. Extends adds Input and Output to it.
	Conversation string
	Extends      bool
	// Unfinished is a response without its input, which cannot be continued.
	Unfinished bool
}

// Item is one item of input or output.
type Item struct {
	ID     string // empty: it cannot be referred to
	JSON   json.RawMessage
	Worker string // of output: the worker that made it
}

// Settings of a File.
type Settings struct {
	Path     string
	Limits   Limits
	Registry prometheus.Registerer
	Logger   *slog.Logger
}

// File is a Store of one host: a file. Two processes may use it at the same time. Its
// methods are safe for concurrent use. Until the file could be opened they return
// ErrUnavailable.
type File struct {
	*database
	*Responses
	*Conversations
	*Background
	clock steady.Clock // by which responses are old
}

// Responses are the responses that have ended, and their items.
type Responses struct{ *database }

// Conversations are the conversations and their items. A response locks the conversation that it adds to.
type Conversations struct {
	*database
	locks *locks
}

// Background are the background responses that have not ended, and the logs of their events.
type Background struct{ *database }

// database is the part of a File that all of it shares.
type database struct {
	Settings
	// Events are the logs of streamed background responses.
	Events *eventlog.Logs

	failures prometheus.Counter
	opened   atomic.Pointer[handles]
}

// handles are the connections to the file.
type handles struct {
	db    *sql.DB // writers wait for each other, and for no reader
	reads *sql.DB
}

// FileName is the database's name in the state directory.
const FileName = "responses.db"

// Check returns the reason why Open could not use the file at path, or nil.
func Check(ctx context.Context, path string) error { return sqlite.Check(ctx, path, len(steps)) }

// New builds a store and registers its metrics. Open opens the file.
func New(s Settings) *File {
	events := eventlog.New(filepath.Join(filepath.Dir(s.Path), EventsDirectory), s.Limits.Bytes/logsPart)
	db := &database{Settings: s, Events: events, failures: newFailures(s.Registry)}
	return &File{database: db, Responses: &Responses{db}, Conversations: &Conversations{db, newLocks(s.Path)},
		Background: &Background{db}}
}

// Open opens the file, and creates it if need be. If it fails, Run tries again.
func (s *File) Open(ctx context.Context) error {
	f, err := openFile(ctx, s.Path)
	if err == nil {
		if err = s.Events.Open(); err != nil {
			_ = f.close()
		}
	}
	if err != nil {
		s.failures.Inc()
		return fmt.Errorf("cannot store responses: %w", err)
	}
	s.opened.Store(f)
	return nil
}

func openFile(ctx context.Context, path string) (*handles, error) {
	db, err := sqlite.Open(ctx, path, steps...)
	if err != nil {
		return nil, err
	}
	for _, add := range []func(context.Context, *sql.DB) error{link, addInFlight, addConversations} {
		if err := add(ctx, db); err != nil {
			_ = db.Close()
			return nil, fmt.Errorf("cannot use %s: %w", path, err)
		}
	}
	reads, err := sqlite.Readers(path)
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	return &handles{db: db, reads: reads}, nil
}

// Logs are the logs of streamed background responses of this host.
func (d *database) Logs() *eventlog.Logs { return d.Events }

// Bytes is how many bytes all responses and conversations together may have.
func (d *database) Bytes() int64 { return d.Limits.Bytes }

// Close closes the file. The store must not be used after it.
func (s *File) Close() error {
	f := s.opened.Load()
	if f == nil {
		return s.locks.close()
	}
	s.Events.Close()
	return errors.Join(f.close(), s.locks.close())
}

func (f *handles) close() error { return errors.Join(f.reads.Close(), f.db.Close()) }

// write runs f in a transaction that writes.
func (d *database) write(ctx context.Context, f func(*sql.Tx) error) error {
	file := d.opened.Load()
	if file == nil {
		return ErrUnavailable
	}
	err := within(ctx, file.db, f)
	if err != nil && !expected(err) {
		d.failures.Inc()
	}
	return err
}

// read runs f in a transaction that sees one state of the file.
func (d *database) read(ctx context.Context, f func(*sql.Tx) error) error {
	file := d.opened.Load()
	if file == nil {
		return ErrUnavailable
	}
	return within(ctx, file.reads, f)
}

// expected reports whether an error is no fault of the file.
func expected(err error) bool {
	for _, known := range []error{
		ErrNotFound, ErrBroken, ErrTooLong, ErrUnavailable, ErrNoRoom, ErrDuplicate, ErrNoItem,
		sql.ErrNoRows, context.Canceled,
	} {
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
