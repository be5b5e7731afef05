package connections

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// linger is how long connections are still accepted after clients were first asked
// to close theirs: time for one request on each busy connection.
const linger = 300 * time.Millisecond

// door is where a server accepts connections, until it leaves its clients.
type door struct {
	leaving chan struct{} // closed when clients are asked to close their connections
	loops   acceptLoops

	mu        sync.Mutex
	closed    bool // nothing is accepted any more
	listeners []net.Listener
}

// Listen registers a listener for StopAccepting to close; ok is false if that has been
// called already. The server accepts on the listener that it returns, which
// AcceptLoopsAlive can examine.
func (d *door) Listen(l net.Listener) (_ net.Listener, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listeners = append(d.listeners, l)
	if d.closed {
		return l, false
	}
	return d.loops.add(l), true
}

// Closed reports whether StopAccepting has been called.
func (d *door) Closed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

// MarkHeader asks a client to close its connection, if the server leaves. It is to be called when the header is about
// to be sent: a request may have arrived long before the server leaves, and its client uses the same connection again
// unless the answer forbids it.
func (d *door) MarkHeader(h http.Header) {
	select {
	case <-d.leaving:
		h.Set("Connection", "close")
	default:
	}
}

// Leaving is closed when clients are asked to close their connections.
func (d *door) Leaving() <-chan struct{} { return d.leaving }

// BeginLeaving makes the next answer on each connection its last.
func (d *door) BeginLeaving() {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.leaving:
	default:
		close(d.leaving)
	}
}

// StopAccepting leaves new connections to the process that shares the listening socket,
// and asks clients to close the connections that they have. It does not wait.
func (d *door) StopAccepting() {
	d.BeginLeaving()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, l := range d.listeners {
		_ = l.Close()
	}
}

// Leave is StopAccepting for a time when no other process accepts yet: it gives clients the linger to open another
// connection first. The end of ctx ends the linger.
func (d *door) Leave(ctx context.Context) {
	d.BeginLeaving()
	timer := time.NewTimer(linger)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	d.StopAccepting()
}
