package accounts

import "time"

// How often an account is read while nothing else reports of it.
const (
	// ExhaustedInterval is the interval of an exhausted account.
	ExhaustedInterval = time.Minute
	// IdleInterval is the interval of all others. Updates after turns count as readings.
	IdleInterval = 5 * time.Minute
	// LeastInterval is between any two readings of an account.
	LeastInterval = 10 * time.Second
	// afterReset is how long after its reset an exhausted account is read.
	afterReset = time.Second
)

// NextReading is when the quota is to be read next, if the last reading began at last.
func (q Quota) NextReading(p Policy, last, now time.Time) time.Time {
	switch {
	case q.RefusedAt.After(last), q.InvalidAt.After(last), q.DoubtedAt.After(last):
		return last.Add(LeastInterval)
	case q.limitless() && q.pauseEnds().After(last): // its state changes then
		return q.pauseEnds()
	case q.State(p, now) != Exhausted:
		return later(last, q.At).Add(IdleInterval)
	}
	next := last.Add(ExhaustedInterval)
	for _, reset := range q.resets() {
		// Like last, due is on the monotonic clock: the wait for it is not longer after the clock is set back.
		if due := last.Add(reset.Add(afterReset).Sub(last)); due.After(last) && due.Before(next) {
			next = later(due, last.Add(LeastInterval))
		}
	}
	return next
}

// resets are the ends of the windows that are used up, and the one that a refusal named.
func (q Quota) resets() []time.Time {
	var resets []time.Time
	for _, w := range q.Windows {
		if w.UsedRatio >= 1 && !w.ResetsAt.IsZero() {
			resets = append(resets, w.ResetsAt)
		}
	}
	if !q.RefusedUntil.IsZero() {
		resets = append(resets, q.RefusedUntil)
	}
	return resets
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
