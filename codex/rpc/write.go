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

// writer sends the messages of a connection.
type writer struct {
	*calls
	ws      *websocket.Conn
	out     *writeBuffer
	timeout time.Duration
	bulk    chan [][]byte
	wake    chan struct{} // signals that state.control has grown
}

// run sends the queued messages until the connection closes. It is the only writer, so a caller with an ended context
// can return at once without cutting a message in half (which would end the connection for everyone).
func (w *writer) run(end func(cause error)) {
	timeout := time.AfterFunc(math.MaxInt64, func() {
		end(lost("write", fmt.Errorf("peer has not read for %s", w.timeout)))
	})
	defer timeout.Stop()
	for {
		b := w.queued()
		if b == nil {
			select {
			case <-w.done:
				return
			case <-w.wake:
				continue
			case b = <-w.bulk:
			}
		}
		if err := w.writeAll(b, timeout); err != nil {
			end(lost("write", err))
			return
		}
	}
}

// writeAll sends b and the messages that are queued meanwhile in as few system calls as possible: each wakes up the
// peer. The timeout ends the connection when one batch, or one fragment of a long message, takes longer than the write
// timeout: then the peer does not read and its socket buffer is full.
func (w *writer) writeAll(b [][]byte, timeout *time.Timer) (err error) {
	timeout.Reset(w.timeout)
	defer timeout.Stop()
	w.out.start()
	for size := 0; b != nil; b = w.queued() {
		for _, message := range b {
			if len(message) > maxBuffered {
				timeout.Reset(w.timeout)
			}
			if err := w.writeMessage(message, timeout); err != nil {
				return err
			}
			size += len(message)
		}
		if size > maxBuffered {
			break
		}
	}
	return w.out.flushAndStop()
}

// queued returns the next messages without waiting, control messages first; nil without any.
func (w *writer) queued() (b [][]byte) {
	if one, ok := w.nextControl(); ok {
		return [][]byte{one}
	}
	select {
	case b = <-w.bulk:
	default:
	}
	return b
}

func (w *writer) nextControl() (b []byte, ok bool) {
	w.update(func(s *state) {
		if ok = len(s.control) > 0; ok {
			b, s.control = s.control[0], s.control[1:]
		}
	})
	return b, ok
}

func (w *writer) writeMessage(b []byte, timeout *time.Timer) error {
	ctx := context.Background()
	if len(b) <= fragment {
		return w.ws.Write(ctx, websocket.MessageText, b)
	}
	m, err := w.ws.Writer(ctx, websocket.MessageText)
	if err != nil {
		return err
	}
	for len(b) > 0 {
		n := min(fragment, len(b))
		if _, err := m.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
		timeout.Reset(w.timeout)
	}
	return m.Close()
}

// sendBulk passes messages to the writer, which sends them directly after each other. An error means that nothing was
// sent.
func (w *writer) sendBulk(ctx context.Context, b ...[]byte) error {
	for _, message := range b {
		if len(message) > maxMessage {
			return fmt.Errorf("cannot send %d bytes: %w", len(message), ErrTooLarge)
		}
	}
	select {
	case w.bulk <- b:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-w.done:
		return w.Err()
	}
}

// sendControl queues b before the bulk messages and never blocks.
func (w *writer) sendControl(b []byte) error {
	full := false
	w.update(func(s *state) {
		if full = len(s.control) >= maxControl; !full && s.err == nil {
			s.control = append(s.control, b)
		}
	})
	if full {
		return lost("answer", errors.New("peer sends requests but does not read"))
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return nil
}
