package client

import (
	"context"
	"errors"
	"time"

	"codex-proxy/runner/api/wire"
)

const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
	// patience is longer than a restart of the daemon. Its socket stays open meanwhile, so that calls mostly wait in
	// the queue of the socket.
	patience = time.Minute
)

// passing reports whether err may be gone at the next attempt: the daemon starts again, or stops.
func passing(err error) bool {
	var refused *wire.Error
	return errors.Is(err, ErrNotRunning) || errors.Is(err, ErrLost) ||
		errors.As(err, &refused) && refused.Code == wire.Unavailable
}

// again repeats ask while its error is passing, until the patience since the last progress is over. ask returns whether
// it made progress.
func (c *Client) again(ctx context.Context, ask func() (bool, error)) error {
	pause, end := c.pause, time.Now().Add(c.patience)
	for {
		progress, err := ask()
		if !passing(err) {
			return err
		}
		if progress {
			pause, end = c.pause, time.Now().Add(c.patience)
		}
		if time.Now().After(end) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		pause = min(2*pause, lastPause)
	}
}

// Again calls ask, and again for up to a minute while the daemon cannot be reached. Ask must be harmless if it is done
// twice.
func (c *Client) Again(ctx context.Context, ask func() error) error {
	return c.again(ctx, func() (bool, error) { return false, ask() })
}
