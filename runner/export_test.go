package runner

import (
	"context"
	"time"
)

// Expire is what Run does every few seconds, for tests without a wait.
func (r *Runner) Expire(ctx context.Context, now time.Time) { r.expiry.expire(ctx, now) }
