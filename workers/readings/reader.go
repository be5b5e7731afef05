// Package readings reads the accounts of workers from codex, when a reading is due or asked for: one reading of each
// quota at a time.
package readings

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/codexaccount"
	"codex-proxy/workers/accounts"
)

// ErrNotConnected means that the account cannot be read now: the worker has no connection.
var ErrNotConnected = errors.New("the worker is not connected")

// Reader reads the account of one worker: one reading at a time for all callers. Its methods are safe for concurrent
// use.
type Reader struct {
	worker string
	store  *accounts.Store
	quotas *Quotas
	logger *slog.Logger
	wake   chan struct{} // capacity 1: it may be time for a reading

	mu      sync.Mutex
	limits  codexaccount.RateLimits // as this worker reported them last
	last    []byte                  // the parameters of the last notification
	tried   time.Time               // when the last reading began that this worker rests on
	failed  bool                    // the last reading
	live    bool                    // a connection is there to read over
	pending *flight                 // is under way or begins soon; nil: none
	running bool
}

// flight is one reading, for all that wait for it.
type flight struct {
	done chan struct{}
	err  error // set before done is closed
}

// NewReader creates the reader of the named worker's account, which has one of the quotas.
func NewReader(worker string, quotas *Quotas, logger *slog.Logger) *Reader {
	return &Reader{worker: worker, store: quotas.store, quotas: quotas, logger: logger, wake: make(chan struct{}, 1)}
}

// begin is for the begin of a connection: the process may have another login.
func (r *Reader) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live, r.limits, r.last, r.tried = true, codexaccount.RateLimits{}, nil, time.Time{}
	r.pending = &flight{done: make(chan struct{})}
	r.poke()
}

// End is for the end of a connection, when no reading is under way any more.
func (r *Reader) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live = false
	if r.pending != nil {
		r.pending.err = ErrNotConnected
		close(r.pending.done)
		r.pending = nil
	}
}

// Wake is for a change after which it may be time for a reading. It does not block.
func (r *Reader) Wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.poke()
}

// Due receives a value when it may be time for a reading.
func (r *Reader) Due() <-chan struct{} { return r.wake }

func (r *Reader) poke() {
	select {
	case r.wake <- struct{}{}:
	default: // the token that is there covers this, too
	}
}

// request returns the reading that is under way, or asks for one.
func (r *Reader) request() (*flight, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.live {
		return nil, ErrNotConnected
	}
	if r.pending == nil {
		r.pending = &flight{done: make(chan struct{})}
		r.poke()
	}
	return r.pending, nil
}

// start returns the reading that is to begin now, or nil and how long to wait. due is when
// one is due that nobody asks for.
func (r *Reader) start(due func(tried time.Time) time.Duration) (*flight, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running {
		return nil, accounts.IdleInterval // its end wakes
	}
	if r.pending == nil {
		wait := due(r.tried)
		if wait > 0 {
			return nil, wait
		}
		r.pending = &flight{done: make(chan struct{})}
	}
	r.running = true
	return r.pending, accounts.IdleInterval
}

// finish ends a reading. It reports whether it is the first one in a row that failed; one that
// ended with its connection neither failed nor succeeded.
func (r *Reader) finish(tried time.Time, err error) (beginsToFail bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending.err = err
	close(r.pending.done)
	r.pending, r.running, r.tried = nil, false, tried
	if !errors.Is(err, ErrNotConnected) {
		failed := err != nil && !errors.Is(err, errLoginInvalid)
		beginsToFail = failed && !r.failed
		r.failed = failed
	}
	r.poke()
	return beginsToFail
}

// read takes over the result of a reading.
func (r *Reader) read(limits codexaccount.RateLimits) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limits, r.last = limits, nil
}

// changed returns the windows that codex reports by itself, after a turn.
func (r *Reader) changed(n appserver.Notification) []accounts.Window {
	r.mu.Lock()
	defer r.mu.Unlock()
	if bytes.Equal(n.Params, r.last) { // as after most turns
		return nil
	}
	update, ok := codexaccount.RateLimitsUpdate(n)
	if !ok {
		return nil
	}
	windows := changedWindows(r.limits, update)
	r.limits, r.last = r.limits.Merge(update), n.Params
	return windows
}

// Notified takes over a notification of codex.
func (r *Reader) Notified(n appserver.Notification) {
	if windows := r.changed(n); len(windows) > 0 {
		r.store.Update(r.worker, windows, time.Now())
	}
}

// Read reads the account, or waits for the reading that is under way. The end of ctx ends only this wait. A reading
// that has just ended counts, too.
func (r *Reader) Read(ctx context.Context) error {
	f, err := r.request()
	if err != nil {
		return fmt.Errorf("cannot read the account of worker %s: %w", r.worker, err)
	}
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
