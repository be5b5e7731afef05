package accounts

import "time"

// stopwatch adds up the time in which something holds.
type stopwatch struct {
	since time.Time // zero: it does not hold
	total time.Duration
}

func (s *stopwatch) set(holds bool, now time.Time) {
	if holds == !s.since.IsZero() {
		return
	}
	if holds {
		s.since = now
		return
	}
	s.total, s.since = s.elapsed(now), time.Time{}
}

func (s *stopwatch) elapsed(now time.Time) time.Duration {
	if s.since.IsZero() {
		return s.total
	}
	return s.total + max(0, now.Sub(s.since))
}

// blocked reports whether no account that an operator has not paused may serve, at least one
// of them for want of quota.
func blocked(views []View) bool {
	exhausted := false
	for _, v := range views {
		switch {
		case v.Paused:
		case v.State.Serves():
			return false
		case v.State == Exhausted:
			exhausted = true
		}
	}
	return exhausted
}

// Blocked reports whether no account has quota, and for how long that has been so, in all.
func (b *Store) Blocked(now time.Time) (blocked bool, total time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.blocked.since.IsZero(), b.blocked.elapsed(now)
}
