package proxy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"codex-proxy/proxy/openai"
)

const (
	// linger is how long connections are still accepted after clients were
	// first told to close theirs: time for one request on each busy one.
	linger = 300 * time.Millisecond
	// quiet is how long a connection without a request is left open for the
	// next one, which will be told to close it.
	quiet = 5 * time.Second
)

// exits is how a server leaves its clients to another process.
type exits struct {
	changed chan struct{} // holds a token when a connection has changed
	begun   chan struct{} // closed when clients are told to go elsewhere
	most    int           // connections
	crowded func(int)     // logs that there are more

	mu        sync.Mutex
	leaving   bool      // clients are told to close their connections
	closed    bool      // nothing is accepted any more
	refused   time.Time // what has come since then is refused; zero: nothing is
	listeners []net.Listener
	conns     map[net.Conn]connection
	crowdedAt time.Time              // the last time that crowded was called
	sockets   int                    // WebSockets, which are in conns no more
	socketsOf map[string]int         // by API key
	requests  map[*exchange]struct{} // on WebSockets
}

type connection struct {
	state http.ConnState
	since time.Time
}

func newExits() exits {
	return exits{changed: make(chan struct{}, 1), begun: make(chan struct{}), socketsOf: map[string]int{}, requests: map[*exchange]struct{}{}}
}

// follow is http.Server.ConnState.
func (e *exits) follow(conn net.Conn, state http.ConnState) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.conns == nil {
		e.conns = map[net.Conn]connection{}
	}
	e.conns[conn] = connection{state, time.Now()}
	switch state {
	case http.StateNew:
		e.makeRoom(conn)
	case http.StateClosed, http.StateHijacked:
		delete(e.conns, conn)
	}
	e.note()
}

func (e *exits) note() {
	select {
	case e.changed <- struct{}{}:
	default: // a token that nobody has taken yet covers this change too
	}
}

// openSocket counts a WebSocket of an API key, or of no key, until closed is
// called, unless there are as many as may be.
func (e *exits) openSocket(key string) (closed func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case key != "" && e.socketsOf[key] >= maxKeySockets:
		return nil, tooMany(openai.TypeRateLimit, "concurrency_exceeded",
			fmt.Sprintf("this API key has %d WebSockets already, as many as it may; use one of them", maxKeySockets), time.Second)
	case e.sockets >= maxSockets:
		return nil, openai.Unavailable("overloaded", fmt.Sprintf("there are %d WebSockets already", maxSockets), time.Second)
	}
	e.sockets++
	e.socketsOf[key]++
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.sockets--
		if e.socketsOf[key]--; e.socketsOf[key] == 0 {
			delete(e.socketsOf, key)
		}
		e.note()
	}, nil
}

// openRequest counts a request on a WebSocket until answered is called.
func (e *exits) openRequest(x *exchange) (answered func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests[x] = struct{}{}
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.requests, x)
		e.note()
	}
}

// awaitSockets waits for the last WebSocket.
func (e *exits) awaitSockets(ctx context.Context) error {
	for {
		e.mu.Lock()
		left := e.sockets
		e.mu.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-e.changed:
		case <-ctx.Done():
			return fmt.Errorf("%d WebSockets are still open: %w", left, context.Cause(ctx))
		}
	}
}

// accepts registers a listener for leave to close; false means that it has.
func (e *exits) accepts(l net.Listener) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.listeners = append(e.listeners, l)
	return !e.closed
}

func (e *exits) left() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}

// show makes a client use another connection next time. It is called when the header
// is about to be sent: a request may have come long before its server leaves, and its
// client comes back on the same connection unless the answer forbids that.
func (e *exits) show(h http.Header) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.leaving {
		h.Set("Connection", "close")
	}
}

func (e *exits) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.leaving {
		close(e.begun)
	}
	e.leaving = true
}

func (e *exits) stopAccepting() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for _, l := range e.listeners {
		_ = l.Close()
	}
}

// count returns the connections, and those of them with a request.
func (e *exits) count() (all, busy int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.conns {
		if c.state != http.StateIdle {
			busy++
		}
	}
	return len(e.conns) + e.sockets, busy + e.sockets
}

// Refuse is called when requests are refused from now on: Unanswered leaves those out.
func (s *Server) Refuse() {
	s.exits.mu.Lock()
	defer s.exits.mu.Unlock()
	s.exits.refused = time.Now()
}

// Unanswered returns how many requests have come and are not answered to the end:
// their heads are here, and perhaps no more. Messages that wait on a WebSocket for
// their turn are not among them: the end of the connection tells that of them.
func (s *Server) Unanswered() (n int) {
	s.exits.mu.Lock()
	defer s.exits.mu.Unlock()
	refused := s.exits.refused
	waited := func(since time.Time) bool { return refused.IsZero() || since.Before(refused) }
	for _, c := range s.exits.conns {
		if c.state == http.StateActive && waited(c.since) {
			n++
		}
	}
	for x := range s.exits.requests {
		if waited(x.began) {
			n++
		}
	}
	return n
}

// Changed holds a token when Unanswered may have changed. It is for one who waits,
// while neither AwaitQuiet nor Shutdown does.
func (s *Server) Changed() <-chan struct{} { return s.exits.changed }

// StopAccepting leaves new connections to who shares the listening socket, and
// tells clients to close those that they have. It does not wait.
func (s *Server) StopAccepting() {
	s.exits.begin()
	s.exits.stopAccepting()
}

// Leave is StopAccepting for a time when nobody else accepts yet: clients get a
// moment to come back on another connection first. The end of ctx hurries it.
func (s *Server) Leave(ctx context.Context) {
	s.exits.begin()
	timer := time.NewTimer(linger)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	s.exits.stopAccepting()
}

// Rest waits for the next request on a connection that is open, and reports whether
// one has come before every connection has been without one for the linger. An answer
// that had begun before Leave did not tell its client to close the connection: that
// client may come back as soon as the answer has ended.
func (s *Server) Rest(ctx context.Context) (come bool) {
	for {
		left, busy := s.exits.unrested(time.Now())
		if busy || left <= 0 {
			return busy
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-s.exits.changed:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
		timer.Stop()
	}
}

// unrested returns whether a connection has a request, and if none has, after which
// time the last one will have been without one for the linger.
func (e *exits) unrested(now time.Time) (left time.Duration, busy bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.conns {
		if c.state == http.StateActive {
			return 0, true
		}
		left = max(left, linger-now.Sub(c.since))
	}
	return left, false
}

// AwaitQuiet waits until no connection is left that a client may be about to
// use; when hurry is closed, until none is in use. It returns why ctx ended if
// that comes first.
func (s *Server) AwaitQuiet(ctx context.Context, hurry <-chan struct{}) error {
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	enough := false
	for {
		all, busy := s.exits.count()
		if all == 0 || enough && busy == 0 {
			return nil
		}
		select {
		case <-s.exits.changed:
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
