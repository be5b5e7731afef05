package rpc

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"codex-proxy/internal/fault"
)

// keptBuffer is the largest read buffer that a connection keeps for the next message. Most messages have a few
// hundred bytes; long answers, and the history that codex sends back, have more.
const keptBuffer = 64 << 10

// read handles one message after another until one cannot be read or parsed.
func (c *Conn) read() error {
	var buffer bytes.Buffer
	for {
		b, err := c.next(&buffer)
		if err != nil {
			return lost("read", err)
		}
		m, err := Parse(b, &c.opts.Fields)
		if err != nil {
			return lost("parse a message", err)
		}
		m.At = time.Now()
		c.received.Store(ticks(m.At))
		c.handling.Store(ticks(m.At))
		fault.Point("reader")
		err = c.handle(m)
		c.handling.Store(0)
		if err != nil {
			return err
		}
	}
}

// next reads a message into the buffer of the previous one.
func (c *Conn) next(buffer *bytes.Buffer) ([]byte, error) {
	_, r, err := c.ws.Reader(context.Background())
	if err != nil {
		return nil, err
	}
	if buffer.Cap() > keptBuffer {
		*buffer = bytes.Buffer{}
	}
	buffer.Reset()
	_, err = buffer.ReadFrom(r)
	return buffer.Bytes(), err
}

func (c *Conn) handle(m Message) error {
	switch {
	case m.isRequest():
		return c.opts.OnRequest(m)
	case m.isReply():
		c.settle(m)
	case m.Method != "":
		c.opts.OnNotification(m)
	default:
		c.opts.Logger.Warn("codex app-server sent a message without id and method")
	}
	return nil
}

// LastReceived is when the last message of any kind arrived.
func (c *Conn) LastReceived() time.Time { return began.Add(time.Duration(c.received.Load())) }

// Alive is an error when the reading loop has handled one message for longer than bound. Handling never blocks, so
// that is a fault of this process; the silence of a worker is not.
func (c *Conn) Alive(bound time.Duration) error {
	since := c.handling.Load()
	if since == 0 {
		return nil
	}
	if d := time.Duration(ticks(time.Now()) - since); d > bound {
		return fmt.Errorf("the reading loop has been at one message for %s", d.Round(time.Millisecond))
	}
	return nil
}

// began is the origin of ticks.
var began = time.Now()

// ticks are nanoseconds of the monotonic clock: their differences stay true when the wall clock is set.
func ticks(at time.Time) int64 { return int64(at.Sub(began)) }
