package authz

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// queueLimit bounds the proxy's own frames that wait for the end of a message of codex.
const queueLimit = 1 << 20

var (
	errClient = errors.New("cannot write to the client")
	errFlood  = errors.New("the client reads none of its refusals")
)

// clientWriter writes the messages of codex to a client, with the frames of the proxy between two messages.
type clientWriter struct {
	conn io.Writer
	// called once, when the client takes no more; further messages are dropped. May be nil: an error each time
	gone func(error)

	mu    sync.Mutex
	open  bool          // a message of codex has been written in part
	queue []byte        // frames of the proxy that wait for its end
	sent  chan struct{} // closed when they are sent; nil: nobody waits
	ended bool          // gone was called
}

// pass writes bytes of codex. between is the first offset in b at which no message of codex is open, or -1; open
// reports whether one is open at the end.
func (o *clientWriter) pass(b []byte, between int, open bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) > 0 && between >= 0 {
		whole := append(append(b[:between:between], o.queue...), b[between:]...)
		o.queue, b = nil, whole
		if o.sent != nil {
			close(o.sent)
			o.sent = nil
		}
	}
	o.open = open
	if len(b) == 0 {
		return nil
	}
	return o.write(b)
}

// put writes a frame of the proxy, or has it wait.
func (o *clientWriter) put(frame []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.add(frame)
}

func (o *clientWriter) add(frame []byte) error {
	if !o.open {
		return o.write(frame)
	}
	if len(o.queue)+len(frame) > queueLimit {
		return errFlood
	}
	o.queue = append(o.queue, frame...)
	return nil
}

// wait is put for a frame that no client has forced upon the proxy: it waits until there is room.
func (o *clientWriter) wait(ctx context.Context, frame []byte) error {
	for {
		o.mu.Lock()
		err := o.add(frame)
		if errors.Is(err, errFlood) && o.sent == nil {
			o.sent = make(chan struct{})
		}
		sent := o.sent
		o.mu.Unlock()
		if !errors.Is(err, errFlood) {
			return err
		}
		select {
		case <-sent:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (o *clientWriter) write(b []byte) error {
	if o.ended {
		return nil
	}
	_, err := o.conn.Write(b)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%w: %v", errClient, err)
	if o.gone == nil {
		return err
	}
	o.ended = true
	o.gone(err)
	return nil
}
