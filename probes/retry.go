package probes

import "time"

// Bounds of the advice in Retry-After: a client that comes back within a
// second only adds load, and one told to wait longer than a minute misses the
// recovery.
const (
	minRetryAfter = time.Second
	maxRetryAfter = time.Minute
)

// RetryAfter is how long a client should wait, in whole seconds, before the
// service may be ready again: until systemd starts the next worker if all are
// waiting for that, a minute if a person has to act, else a second.
func RetryAfter(r Report, now time.Time) time.Duration {
	switch r.Health.Readiness.Reason {
	case StartLimitHit, Stopped, NoWorker, NoModels:
		return maxRetryAfter
	case WorkerExited:
		if !r.Health.Liveness.Live { // for good
			return maxRetryAfter
		}
		return minRetryAfter
	case BackingOff:
		return ClampRetry(untilNextStart(r.Workers, now))
	default:
		return minRetryAfter
	}
}

func untilNextStart(workers []Worker, now time.Time) time.Duration {
	next := maxRetryAfter
	for _, w := range workers {
		if w.NextRestartAt != nil {
			next = min(next, w.NextRestartAt.Sub(now))
		}
	}
	return next
}

// ClampRetry makes a Retry-After of an estimate: whole seconds, rounded up,
// within the bounds.
func ClampRetry(d time.Duration) time.Duration {
	whole := (d + time.Second - 1).Truncate(time.Second)
	return min(max(whole, minRetryAfter), maxRetryAfter)
}
