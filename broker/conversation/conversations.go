// Package conversation sends the requests of long conversations over WebSockets to the model endpoint, one for each
// conversation, so that only the new part of a request goes up. The endpoint keeps the last response of a WebSocket in
// memory (https://developers.openai.com/api/docs/guides/websocket-mode).
package conversation

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sync/semaphore"
)

// Line is the way to the endpoint; an *upstream.Transport is one. A WebSocket of its Upgrade counts as its connection.
type Line interface {
	http.RoundTripper
	Upgrade(ctx context.Context, address string, h http.Header) (*websocket.Conn, *http.Response, error)
	Sockets() int
	Answered(took time.Duration, continued bool)
	Failed(err error) error
	Cut(err error) error
}

// Conversations is an http.RoundTripper. The first request of a conversation goes over its Line, and a WebSocket is
// made meanwhile; the second one goes over that, and of each later one only the new part. A request that is no
// continuation goes over the Line.
type Conversations struct {
	line     Line
	queue    chan opening
	messages *semaphore.Weighted // the room for large ones, in bytes
	logger   *slog.Logger

	mu      sync.Mutex // guards the rest
	sockets map[digest]*socket
	asked   map[digest]bool // for a WebSocket that is not made yet
	credit  int
	rest    time.Time // no WebSocket is made before
	refused int       // upgrades, or requests over a WebSocket, one after the other
}

// The credit for WebSockets. Each costs one, and each request that continues over one brings some back: so only a few
// are made in vain where conversations go on rarely. Without credit, one is made in a while.
const (
	firstCredit, mostCredit = 8, 16
	perContinuation         = 2
	inAWhile                = time.Minute
)

// New makes the conversations of a line. Without Run all requests go over the line.
func New(line Line, logger *slog.Logger) *Conversations {
	return &Conversations{line: line, queue: make(chan opening, max(1, line.Sockets())),
		messages: semaphore.NewWeighted(mostRoom), logger: logger,
		sockets: map[digest]*socket{}, asked: map[digest]bool{}, credit: firstCredit}
}

// unservedError means that the endpoint has done nothing for a request. A misfit is one that it has refused.
type unservedError struct {
	misfit bool
	code   string // of the refusal
}

// Error implements error.
func (*unservedError) Error() string { return "the endpoint has done nothing for the request" }

// RoundTrip implements http.RoundTripper. A request goes out again only if the endpoint has done nothing for it.
func (c *Conversations) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.line.Sockets() == 0 {
		return c.line.RoundTrip(r)
	}
	q := read(r)
	if q == nil {
		return c.line.RoundTrip(r)
	}
	var unserved *unservedError
	if s, from := c.take(q); s != nil {
		res, err := c.over(s, r, q, from)
		if !errors.As(err, &unserved) {
			_ = r.Body.Close()
			return res, err
		}
	}
	res, err := c.line.RoundTrip(r)
	if err == nil && res.StatusCode == http.StatusOK {
		if unserved != nil && unserved.misfit {
			c.misfit(unserved.code)
		}
		c.want(r, q)
	}
	return res, err
}

// take returns the WebSocket of a conversation that a request continues, and the first item that the endpoint lacks;
// nil: it has none that is free.
func (c *Conversations) take(q *request) (s *socket, from int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s = c.sockets[q.of]
	if s == nil || s.busy.Load() || s.over() {
		return nil, 0
	}
	if time.Since(s.made) > oldest {
		c.drop(s)
		return nil, 0
	}
	if s.has != nil {
		if from = s.has.before(q); from < 0 {
			return nil, 0
		}
	}
	s.used = time.Now()
	s.busy.Store(true)
	return s, from
}

// finish frees a WebSocket after an answer.
func (c *Conversations) finish(s *socket, has *known) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.has != nil {
		c.credit = min(mostCredit, c.credit+perContinuation)
	}
	c.refused = 0
	s.has, s.used = has, time.Now()
	s.free()
}

// drop ends a WebSocket. The caller holds the lock.
func (c *Conversations) drop(s *socket) {
	if c.sockets[s.of] == s {
		delete(c.sockets, s.of)
	}
	s.end(nil)
}

// end drops the WebSocket of a request that takes no more messages.
func (c *Conversations) end(s *socket) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(s)
	s.free()
}

// ended drops a WebSocket whose connection has ended. A request may still take its last messages.
func (c *Conversations) ended(s *socket) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(s)
	if !s.busy.Load() {
		s.over()
	}
}
