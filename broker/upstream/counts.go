package upstream

import (
	"errors"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"codex-proxy/broker/brokerstate"
)

// counts is the observation of the connections and requests of a transport.
type counts struct {
	sent, received, continued atomic.Uint64

	mu   sync.Mutex
	line brokerstate.Line
}

// Line returns the state of the connections, and of the failures to reach the endpoint.
func (t *Transport) Line() brokerstate.Line {
	t.mu.Lock()
	open, sockets := t.open, t.sockets
	t.mu.Unlock()
	t.counts.mu.Lock()
	defer t.counts.mu.Unlock()
	line := t.counts.line
	line.Connections, line.Sockets = open+sockets, sockets
	line.Sent, line.Received, line.Continued = t.counts.sent.Load(), t.counts.received.Load(), t.counts.continued.Load()
	line.Failures = maps.Clone(line.Failures)
	if line.Failure != nil {
		last := *line.Failure
		line.Failure = &last
	}
	return line
}

func (c *counts) connected(took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.line.Connect.Add(took)
}

func (c *counts) tls(took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.line.TLS.Add(took)
}

// answered records the first byte of an answer.
func (c *counts) answered(took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.line.FirstByte.Add(took)
	if c.line.Failure != nil {
		c.line.Failure.Over = true
	}
}

// failed records a request without an answer. The error of a cancelled one has no reason.
func (c *counts) failed(err error) {
	var failed *Error
	if !errors.As(err, &failed) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.line.Failures == nil {
		c.line.Failures = map[string]uint64{}
	}
	c.line.Failures[string(failed.Reason)]++
	c.line.Failure = &brokerstate.Failure{Reason: string(failed.Reason), At: time.Now()}
}

// countedConn is a connection that counts as open until it is closed.
type countedConn struct {
	net.Conn
	counts *counts
	closed func()
}

// Read implements net.Conn.
func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.counts.received.Add(uint64(n))
	return n, err
}

// Write implements net.Conn.
func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.counts.sent.Add(uint64(n))
	return n, err
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}
