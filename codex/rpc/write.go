package rpc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/coder/websocket"
)

const (
	// fragment is the size of a frame: codex drops the connection on a single frame over 16 MiB but takes fragmented
	// messages up to 64 MiB.
	fragment = 1 << 20
	// maxControl bounds the posted requests and the answers that wait while the peer does not read.
	maxControl = 4096
)

// write sends the queued messages until the connection closes. It is the only writer, so a caller with an ended context
// can return at once without cutting a message in half (which would end the connection for everyone).
func (c *Conn) write() {
	timeout := time.AfterFunc(math.MaxInt64, func() {
		c.Close(lost("write", fmt.Errorf("peer has not read for %s", c.opts.WriteTimeout)))
	})
	defer timeout.Stop()
	for {
		b := c.queued()
		if b == nil {
			select {
			case <-c.done:
				return
			case <-c.wake:
				continue
			case b = <-c.bulk:
			}
		}
		if err := c.writeAll(b, timeout); err != nil {
			c.Close(lost("write", err))
			return
		}
	}
}

// writeAll sends b and the messages that are queued meanwhile in as few system calls as possible: each wakes up the
// peer. The timeout ends the connection when one batch, or one long message, takes longer than the write timeout: then
// the peer does not read and its socket buffer is full.
func (c *Conn) writeAll(b [][]byte, timeout *time.Timer) (err error) {
	timeout.Reset(c.opts.WriteTimeout)
	defer timeout.Stop()
	c.out.start()
	for size := 0; b != nil; b = c.queued() {
		for _, message := range b {
			if len(message) > maxBuffered {
				timeout.Reset(c.opts.WriteTimeout)
			}
			if err := c.writeMessage(message); err != nil {
				return err
			}
			size += len(message)
		}
		if size > maxBuffered {
			break
		}
	}
	return c.out.flushAndStop()
}

// queued returns the next messages without waiting, control messages first; nil without any.
func (c *Conn) queued() (b [][]byte) {
	if one, ok := c.nextControl(); ok {
		return [][]byte{one}
	}
	select {
	case b = <-c.bulk:
	default:
	}
	return b
}

func (c *Conn) nextControl() (b []byte, ok bool) {
	c.update(func(s *state) {
		if ok = len(s.control) > 0; ok {
			b, s.control = s.control[0], s.control[1:]
		}
	})
	return b, ok
}

func (c *Conn) writeMessage(b []byte) error {
	ctx := context.Background()
	if len(b) <= fragment {
		return c.ws.Write(ctx, websocket.MessageText, b)
	}
	w, err := c.ws.Writer(ctx, websocket.MessageText)
	if err != nil {
		return err
	}
	for len(b) > 0 {
		n := min(fragment, len(b))
		if _, err := w.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return w.Close()
}

// sendBulk passes messages to the writer, which sends them directly after each other. An error means that nothing was
// sent.
func (c *Conn) sendBulk(ctx context.Context, b ...[]byte) error {
	for _, message := range b {
		if len(message) > maxMessage {
			return fmt.Errorf("cannot send %d bytes: %w", len(message), ErrTooLarge)
		}
	}
	select {
	case c.bulk <- b:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.done:
		return c.Err()
	}
}

// sendControl queues b before the bulk messages and never blocks.
func (c *Conn) sendControl(b []byte) error {
	full := false
	c.update(func(s *state) {
		if full = len(s.control) >= maxControl; !full && s.err == nil {
			s.control = append(s.control, b)
		}
	})
	if full {
		return lost("answer", errors.New("peer sends requests but does not read"))
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return nil
}
