package runner

import (
	"context"
	"time"
)

// Reconcile is what Run does every few seconds, for tests without a unit.
func (r *Runner) Reconcile(ctx context.Context) { r.reconcile(ctx) }

// WaitingFetches returns how many requests wait for fetches that have not begun.
func (r *Runner) WaitingFetches() (requests int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.state.fetches {
		requests += f.requests
	}
	return requests
}

// Expire is what Run does every few seconds, too.
func (r *Runner) Expire(ctx context.Context, now time.Time) { r.expire(ctx, now) }

// FailureOf is the error of a request whose fetch failed.
var FailureOf = failureOf
