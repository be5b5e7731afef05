package runner

import "context"

// Reconcile is what Run does every few seconds, for tests without a unit.
func (r *Runner) Reconcile(ctx context.Context) { r.reconcile(ctx) }
