package appserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/coder/websocket"
)

const (
	// fragment is how much goes into one frame: codex drops the connection on
	// a single frame over 16 MiB but takes fragmented messages up to 64 MiB.
	fragment = 1 << 20
	// maxControl bounds the answers, interrupts and unsubscriptions waiting for
	// a peer that has stopped reading.
	maxControl = 4096
)

// write sends what is queued until the connection closes. It is the only
// writer, so a caller whose context ends can leave at once without cutting a
// message in half (which would end the connection for everyone).
func (c *Conn) write() {
	patience := time.AfterFunc(math.MaxInt64, func() {
		c.Close(lost("write", fmt.Errorf("peer has not read for %s", c.opts.WriteTimeout)))
	})
	defer patience.Stop()
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
		if err := c.writeAll(b, patience); err != nil {
			c.Close(lost("write", err))
			return
		}
	}
}

// writeAll sends b and whatever is queued by then in one go: each system call
// wakes up the peer. patience ends the connection when the peer takes longer than
// the write timeout for that, or for a long message: its socket buffer is full and
// it is not reading.
func (c *Conn) writeAll(b [][]byte, patience *time.Timer) (err error) {
	patience.Reset(c.opts.WriteTimeout)
	defer patience.Stop()
	c.cork.hold()
	for size := 0; b != nil; b = c.queued() {
		for _, message := range b {
			if len(message) > corked {
				patience.Reset(c.opts.WriteTimeout)
			}
			if err := c.writeMessage(message); err != nil {
				return err
			}
			size += len(message)
		}
		if size > corked {
			break
		}
	}
	return c.cork.release()
}

// queued is what can be sent at once, the control messages first; nil if there is
// nothing.
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
	c.door.enter(func(s *state) {
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

// sendBulk hands messages to the writer, which sends one right after the other. An
// error means that nothing was sent.
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

// sendControl queues b ahead of the bulk messages and never blocks.
func (c *Conn) sendControl(b []byte) error {
	full := false
	c.door.enter(func(s *state) {
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

// encodeRequest is encode for a request, most of whose bytes may be JSON already.
func encodeRequest(id int64, method string, params any, trace *Trace) (b []byte, err error) {
	switch params := params.(type) {
	case appended:
		b = params.append(requestHead(params.size(), id, method))
	case json.RawMessage:
		b = append(requestHead(len(params)+spare, id, method), params...)
	default:
		return encode(method, request{ID: id, Method: method, Params: params, Trace: trace})
	}
	if trace != nil {
		member, err := encode(method, trace)
		if err != nil {
			return nil, err
		}
		b = append(append(b, `,"trace":`...), member...)
	}
	return append(b, '}'), nil
}

// requestHead is a request up to its parameters, with so much room.
func requestHead(room int, id int64, method string) []byte {
	b := append(make([]byte, 0, room), `{"id":`...)
	return quoted(append(strconv.AppendInt(b, id, 10), `,"method":`...), method, `,"params":`)
}

func encode(method string, message any) ([]byte, error) {
	b, err := json.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("cannot encode %s: %w", method, err)
	}
	return b, nil
}
