package connections

import (
	"context"
	"net"
	"net/http"
	"time"
)

const (
	// linger is how long connections are still accepted after clients were first asked
	// to close theirs: time for one request on each busy connection.
	linger = 300 * time.Millisecond
	// quiet is how long a connection without a request stays open for the next request: its answer asks the client to
	// close it.
	quiet = 5 * time.Second
)

// Listen registers a listener for StopAccepting to close; ok is false if that has been
// called already. The server accepts on the listener that it returns, which
// AcceptLoopsAlive can examine.
func (c *Connections) Listen(l net.Listener) (_ net.Listener, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners = append(c.listeners, l)
	if c.closed {
		return l, false
	}
	return c.loops.add(l), true
}

// Closed reports whether StopAccepting has been called.
func (c *Connections) Closed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// MarkHeader asks a client to close its connection, if the server leaves. It is to be called when the header is about
// to be sent: a request may have arrived long before the server leaves, and its client uses the same connection again
// unless the answer forbids it.
func (c *Connections) MarkHeader(h http.Header) {
	select {
	case <-c.leaving:
		h.Set("Connection", "close")
	default:
	}
}

// Leaving is closed when clients are asked to close their connections.
func (c *Connections) Leaving() <-chan struct{} { return c.leaving }

// BeginLeaving makes the next answer on each connection its last.
func (c *Connections) BeginLeaving() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.leaving:
	default:
		close(c.leaving)
	}
}

// StopAccepting leaves new connections to the process that shares the listening socket,
// and asks clients to close the connections that they have. It does not wait.
func (c *Connections) StopAccepting() {
	c.BeginLeaving()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, l := range c.listeners {
		_ = l.Close()
	}
}

// Leave is StopAccepting for a time when no other process accepts yet: it gives clients the linger to open another
// connection first. The end of ctx ends the linger.
func (c *Connections) Leave(ctx context.Context) {
	c.BeginLeaving()
	timer := time.NewTimer(linger)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	c.StopAccepting()
}

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
