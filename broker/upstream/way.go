package upstream

import (
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// way is how far a request has come to its endpoint.
type way struct {
	patience time.Duration // to make a connection. A request that waits for its turn at one waits longer
	give     func()        // ends a request after its patience
	answered atomic.Bool
	kept     bool // it uses an HTTP/1.1 connection that has served another request
	since    time.Time

	mu        sync.Mutex
	waits     bool // for a connection
	connected bool
	late      *time.Timer   // nil: it makes no connection
	shaking   time.Time     // since then TLS begins
	got       chan struct{} // closed with the first connection
	leave     func()        // gives up the turn to make a connection; nil: it has none
}

type wayKey struct{}

// begin notes that the request needs a connection, or another one.
func (w *way) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waits, w.connected, w.got = true, false, make(chan struct{})
}

// dial notes that a connection is being made for the request, which may already have another one.
func (w *way) dial() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waits && w.late == nil {
		w.late = time.AfterFunc(w.patience, w.give)
	}
}

// connection returns a channel that is closed when the request has its connection.
func (w *way) connection() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.got
}

// makes notes that the request has its turn to make a connection, which leave ends. It reports false if it needs none.
func (w *way) makes(leave func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.waits || w.leave != nil {
		return false
	}
	w.leave = leave
	return true
}

// made ends the turn to make a connection.
func (w *way) made() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.leave != nil {
		w.leave()
		w.leave = nil
	}
}

// shake notes the begin of a handshake, and shaken returns the time since then.
func (w *way) shake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shaking = time.Now()
}

func (w *way) shaken() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.shaking)
}

// take notes the connection of the request.
func (w *way) take(info httptrace.GotConnInfo) {
	w.kept, w.since = info.Reused && !multiplexed(info.Conn), time.Now()
	w.rest(true)
}

// end ends the wait, and reports whether the request has had a connection.
func (w *way) end() bool {
	w.made()
	return w.rest(false)
}

func (w *way) rest(connected bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if connected && w.waits {
		close(w.got)
	}
	w.waits, w.connected = false, w.connected || connected
	if w.late != nil {
		w.late.Stop()
		w.late = nil
	}
	return w.connected
}

// closing reports whether a request that has failed may have met the close of an idle connection.
func (w *way) closing() bool {
	return w.kept && !w.answered.Load() && time.Since(w.since) < closeBound
}
