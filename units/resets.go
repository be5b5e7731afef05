package units

import (
	"context"
	"sync"
	"time"
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
	changed chan struct{}
}

// delay is the restart delay of one run of a unit.
type delay struct {
	invocation string
	resetAt    time.Time // zero: it is reset
}

// NewResets returns resets of units that are ready for the given time. reset is Manager.ResetFailed; refused is called
// with each of its errors.
func NewResets(after time.Duration, reset func(ctx context.Context, unit string) error,
	refused func(unit string, err error)) *Resets {
	return &Resets{after: after, reset: reset, refused: refused, delays: map[string]delay{},
		changed: make(chan struct{}, 1)}
}

// Observe takes over a state of a unit, and whether the unit is ready.
func (r *Resets) Observe(s State, ready bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !ready || s.NRestarts == 0 {
		delete(r.delays, s.Unit)
		return
	}
	if d, known := r.delays[s.Unit]; known && d.invocation == s.InvocationID {
		return
	}
	// On the monotonic clock: that of systemd's times may be stepped meanwhile.
	now := time.Now()
	passed := min(max(0, now.Sub(s.StateChangedAt)), r.after)
	r.delays[s.Unit] = delay{invocation: s.InvocationID, resetAt: now.Add(r.after - passed)}
	select {
	case r.changed <- struct{}{}:
	default: // the token that is there covers this change, too
	}
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
