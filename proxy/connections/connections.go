// Package connections has the connections of clients to an HTTP server: how many there
// are, which of them have a request, and how the server leaves its clients to another
// process.
package connections

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
	// maxSockets bounds the WebSockets; each of them remembers a conversation.
	maxSockets = 512
	// maxKeySockets leaves room for other keys if a key has as many as it can.
	maxKeySockets = maxSockets / 4
)

// Connections are the connections of one server. Create it with New; its methods are
// safe for concurrent use.
type Connections struct {
	door

	changed chan struct{} // holds a token after a change
	limit   int           // on connections
	crowded func(limit int)

	mu        sync.Mutex
	refused   time.Time // requests that arrived since then are refused; zero: none is
	conns     map[net.Conn]connection
	crowdedAt time.Time // of the last call of crowded
	sockets   int       // WebSockets, which conns does not have
	socketsOf map[string]int
	messages  map[*message]struct{} // requests on WebSockets
}

type connection struct {
	state http.ConnState
	since time.Time
}

// message is a request on a WebSocket.
type message struct{ began time.Time }

// New creates an empty set of connections. crowded is called, at most once a minute, when a connection is closed
// because there are more than limit, which follows from the limit on file descriptors.
func New(crowded func(limit int)) *Connections {
	return &Connections{
		door: door{leaving: make(chan struct{})}, changed: make(chan struct{}, 1), limit: limit(), crowded: crowded,
		conns: map[net.Conn]connection{}, socketsOf: map[string]int{}, messages: map[*message]struct{}{},
	}
}

// Track is http.Server.ConnState.
func (c *Connections) Track(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns[conn] = connection{state, time.Now()}
	switch state {
	case http.StateNew:
		c.makeRoom(conn)
	case http.StateClosed, http.StateHijacked:
		delete(c.conns, conn)
	}
	c.note()
}

func (c *Connections) note() {
	select {
	case c.changed <- struct{}{}:
	default: // the token that is there covers this change too
	}
}

// OpenSocket counts a WebSocket of an API key, or of no key, until closed is called. It
// returns an *openai.Error if there are as many as may be.
func (c *Connections) OpenSocket(key string) (closed func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case key != "" && c.socketsOf[key] >= maxKeySockets:
		return nil, openai.TooMany(openai.TypeRateLimit, "concurrency_exceeded",
			fmt.Sprintf("this API key has %d WebSockets already, as many as it may; use one of them",
				maxKeySockets), time.Second)
	case c.sockets >= maxSockets:
		return nil, openai.Unavailable("overloaded", fmt.Sprintf("there are %d WebSockets already", maxSockets),
			time.Second)
	}
	c.sockets++
	c.socketsOf[key]++
	return func() { c.closeSocket(key) }, nil
}

func (c *Connections) closeSocket(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sockets--
	if c.socketsOf[key]--; c.socketsOf[key] == 0 {
		delete(c.socketsOf, key)
	}
	c.note()
}

// BeginMessage counts a request on a WebSocket until ended is called.
func (c *Connections) BeginMessage(began time.Time) (ended func()) {
	m := &message{began}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.messages[m] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.messages, m)
		c.note()
	}
}

// AwaitSockets waits until the last WebSocket is closed, or returns why ctx ended.
func (c *Connections) AwaitSockets(ctx context.Context) error {
	for {
		c.mu.Lock()
		left := c.sockets
		c.mu.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-c.changed:
		case <-ctx.Done():
			return fmt.Errorf("%d WebSockets are still open: %w", left, context.Cause(ctx))
		}
	}
}

// Count returns the number of connections, and of those with a request.
func (c *Connections) Count() (all, busy int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		if conn.state != http.StateIdle {
			busy++
		}
	}
	return len(c.conns) + c.sockets, busy + c.sockets
}

// Refuse starts the refusal of requests: Unanswered leaves out requests that arrive after it.
func (c *Connections) Refuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = time.Now()
}

// Unanswered returns how many requests have arrived and are not answered to the end; at least the headers of each are
// here. It leaves out messages that wait on a WebSocket for their turn: the end of the connection reports those to the
// client.
func (c *Connections) Unanswered() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := func(since time.Time) bool { return c.refused.IsZero() || since.Before(c.refused) }
	for _, conn := range c.conns {
		if conn.state == http.StateActive && counts(conn.since) {
			n++
		}
	}
	for m := range c.messages {
		if counts(m.began) {
			n++
		}
	}
	return n
}

// Changed holds a token when Unanswered may have changed. It is for a single receiver,
// while neither AwaitQuiet nor AwaitSockets runs.
func (c *Connections) Changed() <-chan struct{} { return c.changed }
