package probes

import "time"

// Bounds of Retry-After: a client that tries again within a second only adds load, and a client that waits longer than
// a minute misses the recovery.
const (
	minRetryAfter = time.Second
	maxRetryAfter = time.Minute
)

// RetryAfter is the time after which a client should try again, in whole seconds:
// the time until the next start of a worker if all wait for a restart, a minute if
// an operator has to act, else a second.
func RetryAfter(r Report, now time.Time) time.Duration {
	switch r.Health.Readiness.Reason {
	case StartLimitHit, Stopped, NoWorker, NoModels, QuotaExhausted, LoginInvalid:
		return maxRetryAfter
	case WorkerExited:
		if !r.Health.Liveness.Live { // the exit is final
			return maxRetryAfter
		}
		return minRetryAfter
	case DependencyNotReady:
		return dependencyRetry(r, now)
	case BackingOff:
		return ClampRetry(untilNextStart(r.Workers, now))
	default:
		return minRetryAfter
	}
}

// dependencyRetry is the time until the last restart of the dependencies that are missed, or
// a minute if an operator has to act.
func dependencyRetry(r Report, now time.Time) time.Duration {
	var last time.Duration
	for _, d := range missed(r.Dependencies, r.Workers) {
		if d.Reason.Final() {
			return maxRetryAfter
		}
		if d.NextRestartAt != nil {
			last = max(last, d.NextRestartAt.Sub(now))
		}
	}
	return ClampRetry(last)
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

// ClampRetry turns an estimate into a Retry-After: whole seconds, rounded up, within
// the bounds.
func ClampRetry(d time.Duration) time.Duration {
	whole := (d + time.Second - 1).Truncate(time.Second)
	return min(max(whole, minRetryAfter), maxRetryAfter)
}
