package authz

import (
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
	open  bool   // a message of codex has been written in part
	queue []byte // frames of the proxy that wait for its end
	ended bool   // gone was called
}

// pass writes bytes of codex. between is the first offset in b at which no message of codex is open, or -1; open
// reports whether one is open at the end.
func (o *clientWriter) pass(b []byte, between int, open bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) > 0 && between >= 0 {
		whole := append(append(b[:between:between], o.queue...), b[between:]...)
		o.queue, b = nil, whole
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
	if !o.open {
		return o.write(frame)
	}
	if len(o.queue)+len(frame) > queueLimit {
		return errFlood
	}
	o.queue = append(o.queue, frame...)
	return nil
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
