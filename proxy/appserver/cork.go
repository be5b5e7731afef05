package appserver

import (
	"bufio"
	"net"
	"sync"
)

// corked is how much is held back at most. The websocket library writes 4 KiB at
// a time.
const corked = 64 << 10

// readAtOnce is how much one system call reads: all that codex says of a short
// turn. The websocket library reads 4 KiB at a time.
const readAtOnce = 32 << 10

// keptCork is the largest buffer that is kept for what is written next.
const keptCork = 8 << 10

// cork is a connection that holds back what is written, so that messages which
// follow each other leave in one system call. It starts open. What has come is
// read in one, too.
type cork struct {
	net.Conn
	in *bufio.Reader

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
	if n := len(c.buf) + len(b); n > cap(c.buf) && n > keptCork { // a long message: no growing step by step
		c.buf = append(make([]byte, 0, corked), c.buf...)
	}
	c.buf = append(c.buf, b...)
	return len(b), nil
}

// Read implements net.Conn.
func (c *cork) Read(b []byte) (int, error) { return c.in.Read(b) }

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
	err := c.flush()
	if cap(c.buf) > keptCork {
		c.buf = nil
	}
	return err
}

// flush is called under the lock.
func (c *cork) flush() error {
	if len(c.buf) == 0 {
		return nil
	}
	_, err := c.Conn.Write(c.buf)
	c.buf = c.buf[:0]
	return err
}
