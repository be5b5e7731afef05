package client

import (
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
