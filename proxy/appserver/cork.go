package appserver

import (
	"net"
	"sync"
)

// corked is how much is held back at most. The websocket library writes 4 KiB at
// a time.
const corked = 64 << 10

// cork is a connection that holds back what is written, so that messages which
// follow each other leave in one system call. It starts open.
type cork struct {
	net.Conn

	mu   sync.Mutex // the library answers pings on the reading goroutine
	held bool
	buf  []byte
}

// Write implements net.Conn.
func (c *cork) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.held {
		return c.Conn.Write(b)
	}
	if len(c.buf)+len(b) > corked {
		if err := c.flush(); err != nil {
			return 0, err
		}
	}
	c.buf = append(c.buf, b...)
	return len(b), nil
}

// hold begins to hold back.
func (c *cork) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = true
}

// release sends what was held back, and goes on without.
func (c *cork) release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = false
	return c.flush()
}

// flush is called under the lock.
func (c *cork) flush() error {
	if len(c.buf) == 0 {
		return nil
	}
	_, err := c.Conn.Write(c.buf)
	c.buf = c.buf[:0]
	if cap(c.buf) > corked {
		c.buf = nil
	}
	return err
}
