// Package restarts counts the automatic restarts of units, and resets the delays that systemd has grown for them.
package restarts

import (
	"context"
	"sync"
	"time"

	"codex-proxy/internal/nudge"
	"codex-proxy/units"
)

const (
	// resetBound is the longest that one reset takes: systemd answers at once or not at all.
	resetBound = 5 * time.Second
	// resetAgain is the pause after a reset that systemd has refused.
	resetAgain = time.Minute
)

// Resets resets the restart delays of units that systemd has restarted and that then stay ready: systemd itself resets
// no delay while a unit runs. Its methods are safe for concurrent use.
type Resets struct {
	after   time.Duration
	reset   func(ctx context.Context, unit string) error
	refused func(unit string, err error)

	mu      sync.Mutex
	delays  map[string]delay // by unit: of those that are ready after a restart
	changed nudge.Nudge
}

// delay is the restart delay of one run of a unit.
type delay struct {
	invocation string
	resetAt    time.Time // zero: it is reset
}

// NewResets returns resets of units that are ready for the given time. reset is units.Manager.ResetFailed; refused is
// called with each of its errors.
func NewResets(after time.Duration, reset func(ctx context.Context, unit string) error,
	refused func(unit string, err error)) *Resets {
	return &Resets{after: after, reset: reset, refused: refused, delays: map[string]delay{},
		changed: nudge.New()}
}

// Observe takes over a state of a unit, and whether the unit is ready.
func (r *Resets) Observe(s units.State, ready bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !ready || s.NRestarts == 0 {
		delete(r.delays, s.Unit)
		return
	}
	if d, known := r.delays[s.Unit]; known && d.invocation == s.InvocationID {
		return
	}
	// On the monotonic clock: the clock of systemd's times may be stepped meanwhile.
	now := time.Now()
	passed := min(max(0, now.Sub(s.StateChangedAt)), r.after)
	r.delays[s.Unit] = delay{invocation: s.InvocationID, resetAt: now.Add(r.after - passed)}
	r.changed.Touch()
}

// Run resets each delay once, when it is time, until ctx ends; then it returns nil.
func (r *Resets) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.changed:
		case <-timer.C:
		}
		for unit, d := range r.due(time.Now()) {
			r.resetOne(ctx, unit, d)
		}
		timer.Stop()
		if next := r.next(); !next.IsZero() {
			timer.Reset(time.Until(next))
		}
	}
}

func (r *Resets) due(now time.Time) map[string]delay {
	r.mu.Lock()
	defer r.mu.Unlock()
	due := map[string]delay{}
	for unit, d := range r.delays {
		if !d.resetAt.IsZero() && !d.resetAt.After(now) {
			due[unit] = d
		}
	}
	return due
}

// next is when the next delay is due; zero: none is.
func (r *Resets) next() (next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.delays {
		if !d.resetAt.IsZero() && (next.IsZero() || d.resetAt.Before(next)) {
			next = d.resetAt
		}
	}
	return next
}

func (r *Resets) resetOne(ctx context.Context, unit string, d delay) {
	bounded, cancel := context.WithTimeout(ctx, resetBound)
	defer cancel()
	err := r.reset(bounded, unit)
	if ctx.Err() != nil {
		return
	}
	d.resetAt = time.Time{}
	if err != nil {
		r.refused(unit, err)
		d.resetAt = time.Now().Add(resetAgain)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.delays[unit].invocation == d.invocation { // else it has started again meanwhile
		r.delays[unit] = d
	}
}

// Counter counts the automatic restarts of one unit from its states, in their order.
// It never decreases, while NRestarts also counts the restart that the start limit refused,
// and a reset sets it to zero.
type Counter struct {
	Total uint64

	observed   bool
	counted    uint32 // NRestarts up to the current invocation
	invocation string
}

// Observe counts the restarts since the last state. A restart is a new invocation that began
// by itself. The first state counts none.
func (c *Counter) Observe(s units.State) {
	started := s.InvocationID != c.invocation
	if c.observed && started && s.InvocationID != "" && s.NRestarts > 0 {
		c.Total += max(1, uint64(s.NRestarts)-uint64(min(c.counted, s.NRestarts)))
	}
	c.counted = min(c.counted, s.NRestarts)
	if started {
		c.counted = s.NRestarts
	}
	c.observed, c.invocation = true, s.InvocationID
}
