package workers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"codex-proxy/codex/appserver"
	"codex-proxy/workers/accounts"
)

// ErrNotConnected means that the account cannot be read now: the worker has no connection.
var ErrNotConnected = errors.New("the worker is not connected")

// account reads the account of one worker: one reading at a time for all callers.
type account struct {
	wake chan struct{} // capacity 1: it may be time for a reading

	mu      sync.Mutex
	limits  appserver.RateLimits // as this worker reported them last
	last    []byte               // the parameters of the last notification
	tried   time.Time            // when the last reading began that this worker rests on
	failed  bool                 // the last reading
	live    bool                 // a connection is there to read over
	pending *flight              // is under way or begins soon; nil: none
	running bool
}

// flight is one reading, for all that wait for it.
type flight struct {
	done chan struct{}
	err  error // set before done is closed
}

// begin is for the begin of a connection: the process may have another login.
func (a *account) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.live, a.limits, a.last, a.tried = true, appserver.RateLimits{}, nil, time.Time{}
	a.pending = &flight{done: make(chan struct{})}
	a.poke()
}

// end is for the end of a connection, when no reading is under way any more.
func (a *account) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.live = false
	if a.pending != nil {
		a.pending.err = ErrNotConnected
		close(a.pending.done)
		a.pending = nil
	}
}

func (a *account) poke() {
	select {
	case a.wake <- struct{}{}:
	default: // the token that is there covers this, too
	}
}

// request returns the reading that is under way, or asks for one.
func (a *account) request() (*flight, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.live {
		return nil, ErrNotConnected
	}
	if a.pending == nil {
		a.pending = &flight{done: make(chan struct{})}
		a.poke()
	}
	return a.pending, nil
}

// start returns the reading that is to begin now, or nil and how long to wait. due is when
// one is due that nobody asks for.
func (a *account) start(due func(tried time.Time) time.Duration) (*flight, time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running {
		return nil, accounts.IdleInterval // its end wakes
	}
	if a.pending == nil {
		wait := due(a.tried)
		if wait > 0 {
			return nil, wait
		}
		a.pending = &flight{done: make(chan struct{})}
	}
	a.running = true
	return a.pending, accounts.IdleInterval
}

// finish ends a reading. It reports whether it is the first one in a row that failed; one that
// ended with its connection neither failed nor succeeded.
func (a *account) finish(tried time.Time, err error) (beginsToFail bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pending.err = err
	close(a.pending.done)
	a.pending, a.running, a.tried = nil, false, tried
	if !errors.Is(err, ErrNotConnected) {
		failed := err != nil && !errors.Is(err, errLoginInvalid)
		beginsToFail = failed && !a.failed
		a.failed = failed
	}
	a.poke()
	return beginsToFail
}

// read takes over the result of a reading.
func (a *account) read(limits appserver.RateLimits) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.limits, a.last = limits, nil
}

// changed returns the windows that codex reports by itself, after a turn.
func (a *account) changed(n appserver.Notification) []accounts.Window {
	a.mu.Lock()
	defer a.mu.Unlock()
	if bytes.Equal(n.Params, a.last) { // as after most turns
		return nil
	}
	update, ok := n.RateLimitsUpdate()
	if !ok {
		return nil
	}
	windows := changedWindows(a.limits, update)
	a.limits, a.last = a.limits.Merge(update), n.Params
	return windows
}

// notified takes over a notification of codex.
func (w *Worker) notified(n appserver.Notification) {
	if windows := w.account.changed(n); len(windows) > 0 {
		w.book.Update(w.name, windows, time.Now())
	}
}

// Refresh reads the account of the named worker, or waits for the reading that is under way.
// The end of ctx ends only this wait. A reading that has just ended counts, too.
func (p *Pool) Refresh(ctx context.Context, name string) error {
	w, err := p.find(name)
	if err != nil {
		return err
	}
	f, err := w.account.request()
	if err != nil {
		return fmt.Errorf("cannot read the account of worker %s: %w", name, err)
	}
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// AccountsChanged is for every change that the Book reports. It does not block.
func (p *Pool) AccountsChanged() {
	p.markPaused()
	for _, w := range p.workers {
		w.account.mu.Lock()
		w.account.poke()
		w.account.mu.Unlock()
	}
	p.queue.wake()
}

// markPaused notes the pauses of the Book for pick, which does not ask it without a rotation.
func (p *Pool) markPaused() {
	for _, v := range p.book.Views(time.Now()) {
		if w, err := p.find(v.Name); err == nil {
			w.paused.Store(v.Paused)
		}
	}
}

// readAccount reads the account if that is asked for or due, and sets the timer for the next
// time. A failed reading, such as one without a network, is no fault of the worker; the
// first one in a row is logged.
func (s *session) readAccount(ctx context.Context, timer *time.Timer) {
	w := s.worker
	f, wait := w.account.start(func(tried time.Time) time.Duration {
		now := time.Now()
		return s.readings.next(w.name, tried, now).Sub(now)
	})
	timer.Reset(wait)
	if f == nil {
		return
	}
	s.tasks.Go(func() {
		tried, err := s.read(ctx)
		if err != nil && (s.conn.Err() != nil || ctx.Err() != nil) {
			err = fmt.Errorf("%w: %w", ErrNotConnected, err)
		}
		if w.account.finish(tried, err) {
			w.logger.Warn("cannot read the account of a worker", "error", err)
		}
	})
}
