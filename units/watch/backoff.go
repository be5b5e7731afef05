package watch

import (
	"context"
	"errors"
	"time"

	"codex-proxy/units/bus"
)

const (
	firstRetry = 50 * time.Millisecond
	// lastRetry and bus.HelloTimeout, which the last failing attempt can take, add up to
	// less than 2 s: the states are current that soon after the bus is back.
	lastRetry = 400 * time.Millisecond
	slowRetry = 10 * time.Second // where no bus ever was, or no systemd on it
)

// backoff paces the attempts to open a session. An open session resets it.
type backoff struct {
	delay time.Duration
	wasUp bool
}

// wait waits before the next attempt, or until ctx ends.
func (b *backoff) wait(ctx context.Context, err error) {
	timer := time.NewTimer(b.next(err))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (b *backoff) next(err error) time.Duration {
	limit := lastRetry
	if !b.wasUp && (errors.Is(err, bus.ErrNoBus) || errors.Is(err, bus.ErrNoManager)) {
		limit = slowRetry
	}
	b.delay = min(max(firstRetry, 2*b.delay), limit)
	return b.delay
}
