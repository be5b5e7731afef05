package dependencies

import (
	"context"
	"time"
)

const (
	// resetBound is the longest that one call of systemd takes: it answers at once or not at
	// all.
	resetBound = 5 * time.Second
	// resetAgain is the pause after a call that has failed.
	resetAgain = time.Minute
)

// Run resets the restart delay of each dependency that has been ready for ResetAfter, until
// ctx ends; then it returns nil. systemd resets no delay while a unit runs.
func (w *Watch) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.changed:
		case <-timer.C:
		}
		timer.Stop()
		if pause := w.resets(ctx); pause > 0 {
			timer.Reset(pause)
		}
	}
}

// resets makes the resets that are due, and returns the time until the next one; 0 if none
// is foreseen.
func (w *Watch) resets(ctx context.Context) (pause time.Duration) {
	soonest := func(d time.Duration) {
		if pause == 0 || d < pause {
			pause = max(d, time.Millisecond)
		}
	}
	for _, s := range w.states { // the list never changes
		w.mu.Lock()
		at, due := s.resetDue(w.settings.ResetAfter)
		unit, invocation := s.published.Unit, s.invocation
		w.mu.Unlock()
		if !due {
			continue
		}
		if wait := time.Until(at); wait > 0 {
			soonest(wait)
		} else if err := w.reset(ctx, unit); err != nil {
			w.settings.Logger.Warn("cannot reset the restart delay of a dependency", "unit", unit, "error", err)
			soonest(resetAgain)
		} else {
			w.resetDone(s, invocation)
		}
	}
	return pause
}

func (w *Watch) reset(ctx context.Context, unit string) error {
	ctx, cancel := context.WithTimeout(ctx, resetBound)
	defer cancel()
	return w.settings.ResetFailed(ctx, unit)
}

// resetDone records a reset, unless the dependency has started again meanwhile.
func (w *Watch) resetDone(s *state, invocation string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.reset = s.invocation == invocation
}
