package units

import (
	"context"
	"errors"
	"time"
)

const (
	firstRetry = 50 * time.Millisecond
	// With helloTimeout, which the last vain try can take, less than 2 s: so soon
	// after the bus is back the picture is right.
	lastRetry = 400 * time.Millisecond
	slowRetry = 10 * time.Second // where there was never a bus, or no systemd on it
)

// backoff paces the tries to get a session. A session that came up resets it.
type backoff struct {
	delay time.Duration
	wasUp bool
}

// wait waits before the next try, or until ctx ends.
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
	if !b.wasUp && (errors.Is(err, ErrNoBus) || errors.Is(err, errNoManager)) {
		limit = slowRetry
	}
	b.delay = min(max(firstRetry, 2*b.delay), limit)
	return b.delay
}
