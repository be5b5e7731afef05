package connections

import (
	"context"
	"net/http"
	"time"
)

// quiet is how long a connection without a request stays open for the next request: its answer asks the client to
// close it.
const quiet = 5 * time.Second

// Rest waits for the next request on an open connection, and reports whether a request arrived before every connection
// had been without one for the linger. An answer that began before Leave did not ask its client to close the
// connection: that client may send a request as soon as the answer has ended.
func (c *Connections) Rest(ctx context.Context) (come bool) {
	for {
		left, busy := c.unrested(time.Now())
		if busy || left <= 0 {
			return busy
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-c.changed:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
		timer.Stop()
	}
}

// unrested returns whether a connection has a request, and if none has, after which time
// the last connection will have been without one for the linger.
func (c *Connections) unrested(now time.Time) (left time.Duration, busy bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		if conn.state == http.StateActive {
			return 0, true
		}
		left = max(left, linger-now.Sub(conn.since))
	}
	return left, false
}

// AwaitQuiet waits until no connection is left that a client may be about to use; after
// the close of hurry, until none has a request. It returns the cause of ctx if ctx ends
// first.
func (c *Connections) AwaitQuiet(ctx context.Context, hurry <-chan struct{}) error {
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	enough := false
	for {
		all, busy := c.Count()
		if all == 0 || enough && busy == 0 {
			return nil
		}
		select {
		case <-c.changed:
			timer.Reset(quiet)
			enough = hurry == nil
		case <-timer.C:
			timer.Reset(quiet)
			enough = true
		case <-hurry:
			hurry, enough = nil, true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
