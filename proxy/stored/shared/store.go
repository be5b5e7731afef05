// Package shared keeps responses for several hosts, in a database of PostgreSQL. A file of this host keeps them while
// the database does not answer, and they move into the database later.
//
// The database is asked first, and the file if the database does not have a response. A background response is in the
// file of its host, too, which runs it; other hosts know it by the database.
package shared

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/internal/postgres"
	"codex-proxy/proxy/eventlog"
	"codex-proxy/proxy/stored"
)

// Settings of a Store.
type Settings struct {
	File   *stored.File
	Server postgres.Server
	Host   string        // the name of this host in the database
	Bound  time.Duration // of a call of the database
	// Steady reports whether this host has asked the database long enough without a gap to take another for lost.
	Steady func() bool
	// Spread is how much longer to wait between two tries of a database that is away, so that not all hosts come at
	// once.
	Spread func() time.Duration
	// Foreign reports whether this host has left the others, or has never joined: the file keeps its responses then.
	Foreign  func() bool
	Registry prometheus.Registerer
	Logger   *slog.Logger
}

// Store is the stored.Store of several hosts. Its methods are safe for concurrent use.
type Store struct {
	*both
	*Responses
	*Conversations
	*Background
}

// Responses are the responses that have ended, and their items.
type Responses struct{ *both }

// Conversations are the conversations and their items.
type Conversations struct{ *both }

// Background are the background responses that have not ended.
type Background struct {
	*both
	flying sync.Map // ids of the responses of this process
	alone  sync.Map // ids of responses that the database does not know, as this host had not joined
}

// both are the two places.
type both struct {
	*database
	file    *stored.File
	logger  *slog.Logger
	waiting atomic.Int64 // responses and conversations that the file has
	undos   undos
}

// New builds a store, which has no connection yet, and registers its metrics.
func New(s Settings) *Store {
	b := &both{
		database: &database{
			pool: postgres.NewPool(s.Server), host: s.Host, steady: s.Steady, foreign: s.Foreign, spread: s.Spread,
		},
		file:   s.File,
		logger: s.Logger,
	}
	b.bound.Store(int64(s.Bound))
	b.waiting.Store(1) // perhaps
	newMetrics(s.Registry, b)
	return &Store{
		both: b, Responses: &Responses{b}, Conversations: &Conversations{b}, Background: &Background{both: b},
	}
}

// Logs are the logs of streamed background responses of this host.
func (b *both) Logs() *eventlog.Logs { return b.file.Logs() }

// Bytes is how many bytes all responses and conversations together may have.
func (b *both) Bytes() int64 { return b.file.Bytes() }

// Close closes the connections and the file.
func (s *Store) Close() error {
	s.pool.Close()
	return s.file.Close()
}

// first asks the database, and the file if the database does not have it, or does not answer. If neither has it, the
// database's error holds: without the database nothing is known to be missing.
func first[T any](b *both, inDatabase, inFile func() (T, error)) (T, error) {
	got, err := inDatabase()
	if !absent(err) {
		return got, err
	}
	kept, fileErr := inFile()
	switch {
	case !absent(fileErr):
		return kept, fileErr
	case errors.Is(err, stored.ErrNotFound) && b.waiting.Load() > 0: // perhaps it has moved meanwhile
		return inDatabase()
	}
	return got, err
}

// firstDo is first for a function without a result.
func firstDo(b *both, inDatabase, inFile func() error) error {
	none := func(f func() error) func() (struct{}, error) {
		return func() (struct{}, error) { return struct{}{}, f() }
	}
	_, err := first(b, none(inDatabase), none(inFile))
	return err
}

// absent reports whether an error means that the other place may have it.
func absent(err error) bool {
	return errors.Is(err, stored.ErrNotFound) || errors.Is(err, stored.ErrUnavailable)
}

// away reports whether the database could not be used.
func away(err error) bool { return errors.Is(err, stored.ErrUnavailable) }

// Run keeps the store within its limits, and moves the content of the file into the database, until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	var tasks sync.WaitGroup
	defer tasks.Wait()
	tasks.Go(func() { _ = s.file.Run(ctx) })
	tasks.Go(func() { s.keepOrder(ctx) })
	tasks.Go(func() { s.keepSwept(ctx) })
	tasks.Go(func() { s.probeAll(ctx) })
	(&mover{both: s.both}).run(ctx)
	return nil
}
