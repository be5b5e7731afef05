package appserver

import (
	"context"
	"errors"
	"io"
	"math"
	"time"

	"codex-proxy/codex/delivery"
)

var (
	// ErrTurnClosed is the error of Next after Close.
	ErrTurnClosed = errors.New("turn closed")
	// ErrSilent is the error of NextWithin when no event has arrived for so long.
	ErrSilent = errors.New("codex app-server is silent")
)

// Turn is one running turn on a thread of its own. Next belongs to one goroutine; Close may be called from any.
type Turn struct {
	conn        *Conn
	threadID    string
	box         *mailbox // inside Conn.update
	transcript  transcript
	outstanding *outstanding // until codex has unloaded the thread, or the thread is kept
	environment *Environment // of the thread; nil: the one of codex's configuration
	next        *threadStart // of a thread to start at the end of this turn; may be nil
	ready       []Event
	timer       *time.Timer // for NextWithin
	ended       bool
}

func (c *Conn) newTurn(threadID string, tools []Tool) *Turn {
	t := &Turn{conn: c, threadID: threadID, transcript: newTranscript(tools), timer: time.NewTimer(math.MaxInt64)}
	t.box = newMailbox(t)
	t.box.tools = len(tools) > 0
	c.update(func(s *state) { s.threads[threadID] = t.box })
	return t
}

// ThreadID is codex's id of the thread.
func (t *Turn) ThreadID() string { return t.threadID }

// Next waits for the next event. After TurnCompleted it returns io.EOF; when the consumer was too slow,
// delivery.ErrSlowConsumer; after Close, ErrTurnClosed; when the connection is lost, its cause; when ctx ends, ctx's
// cause (and the turn continues).
func (t *Turn) Next(ctx context.Context) (Event, error) { return t.NextWithin(ctx, math.MaxInt64) }

// NextWithin is Next with a timeout, after which it returns ErrSilent and may be called again.
func (t *Turn) NextWithin(ctx context.Context, timeout time.Duration) (Event, error) {
	for waited := false; len(t.ready) == 0; {
		if t.ended {
			return nil, io.EOF
		}
		e, ok, err := t.pop()
		if !ok && err == nil {
			if !waited { // one timeout for all entries that make no event
				waited = true
				t.timer.Reset(timeout)
			}
			e, err = t.receive(ctx)
		}
		if err != nil {
			return nil, err
		}
		t.ready = t.transcript.eventsOf(e)
	}
	e := t.ready[0]
	t.ready = t.ready[1:]
	if _, ok := e.(TurnCompleted); ok {
		t.finish()
	}
	return e, nil
}

// LastReceived is when the last message of the turn arrived, whether it made an event or not.
func (t *Turn) LastReceived() (at time.Time) {
	t.conn.update(func(*state) { at = t.box.received })
	return at
}

// Ready reports whether Next returns without waiting. It skips the entries that make no event.
func (t *Turn) Ready() bool {
	for len(t.ready) == 0 && !t.ended {
		e, ok, err := t.pop()
		if !ok {
			return err != nil // Next returns it
		}
		t.ready = t.transcript.eventsOf(e)
	}
	return true
}

// finish ends the stream of events. The turn may still run in codex: after delivered text a retry counts as a failure,
// and a call of a client's tool as the end.
func (t *Turn) finish() {
	t.ended, t.ready = true, nil
	if t.running() {
		t.interrupt(maxInterrupts, func() {})
	}
}

// receive waits for the next entry until the timer fires. Entries received before the connection was lost precede
// its error.
func (t *Turn) receive(ctx context.Context) (e delivery.Entry, err error) {
	for ok := false; ; {
		select {
		case <-t.box.queue.Changed():
		case <-t.timer.C:
			return e, ErrSilent
		case <-t.callTimeout():
			if t.responseEnds() {
				return delivery.Entry{Method: responseCompleted, Params: []byte("{}")}, nil
			}
			if err := t.failOpenCalls(); err != nil {
				return e, err
			}
		case <-t.conn.Done():
			if e, ok, err = t.pop(); !ok && err == nil {
				err = t.conn.Err()
			}
			return e, err
		case <-ctx.Done():
			return e, context.Cause(ctx)
		}
		if e, ok, err = t.pop(); ok || err != nil {
			return e, err
		}
	}
}

// responseEnds reports whether silence is the end of a response that calls a client's tools.
func (t *Turn) responseEnds() (ends bool) {
	t.conn.update(func(s *state) { ends = s.unmarked && t.transcript.called })
	return ends
}

func (t *Turn) pop() (e delivery.Entry, ok bool, err error) {
	t.conn.update(func(*state) { e, ok, err = t.box.queue.Pop() })
	return e, ok, err
}

func (t *Turn) running() (running bool) {
	t.conn.update(func(*state) { running = !t.box.completed })
	return running
}
