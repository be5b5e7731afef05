package appserver

import (
	"context"
	"io"
	"math"
	"time"

	"codex-proxy/proxy/appserver/rpc"
)

// Turn is one running turn on a thread of its own. Next belongs to one
// goroutine; Close may be called from any.
type Turn struct {
	conn       *Conn
	threadID   string
	box        *mailbox // inside the connection's door
	transcript transcript
	tail       *tail        // held until codex has let go of the thread
	next       *threadStart // of a thread that may be started when this turn has ended; may be nil
	ready      []Event
	clock      *time.Timer // for NextWithin
	ended      bool
}

func (c *Conn) newTurn(threadID string, tools []Tool) *Turn {
	t := &Turn{conn: c, threadID: threadID, transcript: newTranscript(tools), clock: time.NewTimer(math.MaxInt64)}
	t.box = newMailbox(t)
	t.box.tools = len(tools) > 0
	c.update(func(s *state) { s.threads[threadID] = t.box })
	return t
}

// ThreadID is codex's id of the thread.
func (t *Turn) ThreadID() string { return t.threadID }

// Next waits for the next event. After TurnCompleted it returns io.EOF; when the
// consumer was too slow, ErrSlowConsumer; after Close, ErrTurnClosed; when the
// connection is lost, its cause; when ctx ends, ctx's cause (and the turn runs on).
func (t *Turn) Next(ctx context.Context) (Event, error) { return t.NextWithin(ctx, math.MaxInt64) }

// NextWithin is Next that waits no longer than that; then it returns ErrSilent,
// and may be called again.
func (t *Turn) NextWithin(ctx context.Context, patience time.Duration) (Event, error) {
	for waited := false; len(t.ready) == 0; {
		if t.ended {
			return nil, io.EOF
		}
		n, ok, err := t.take()
		if !ok && err == nil {
			if !waited { // one patience for all that comes without being an event
				waited = true
				t.clock.Reset(patience)
			}
			n, err = t.receive(ctx)
		}
		if err != nil {
			return nil, err
		}
		t.ready = t.transcript.take(n)
	}
	e := t.ready[0]
	t.ready = t.ready[1:]
	if _, ok := e.(TurnCompleted); ok {
		t.finish()
	}
	return e, nil
}

// Heard is when codex last said something of the turn, be it no event.
func (t *Turn) Heard() (at time.Time) {
	t.conn.update(func(*state) { at = t.box.heard })
	return at
}

// Ready reports whether Next returns without waiting. What has come and makes no
// event is out of the way then.
func (t *Turn) Ready() bool {
	for len(t.ready) == 0 && !t.ended {
		n, ok, err := t.take()
		if !ok {
			return err != nil // as Next will say
		}
		t.ready = t.transcript.take(n)
	}
	return true
}

// finish ends the stream of events. The turn may still run in codex: after text
// was delivered, a retry is a failure to us, and a call of a tool is an end.
func (t *Turn) finish() {
	t.ended, t.ready = true, nil
	if t.running() {
		t.stop(maxInterrupts, func() {})
	}
}

// receive waits for the next notification until the clock strikes. What arrived
// before the connection was lost comes before the loss.
func (t *Turn) receive(ctx context.Context) (n mail, err error) {
	for ok := false; ; {
		select {
		case <-t.box.ready:
		case <-t.clock.C:
			return n, ErrSilent
		case <-t.impatience():
			if err := t.giveUp(); err != nil {
				return n, err
			}
		case <-t.conn.Done():
			if n, ok, err = t.take(); !ok && err == nil {
				err = t.conn.Err()
			}
			return n, err
		case <-ctx.Done():
			return n, context.Cause(ctx)
		}
		if n, ok, err = t.take(); ok || err != nil {
			return n, err
		}
	}
}

func (t *Turn) take() (n mail, ok bool, err error) {
	t.conn.update(func(*state) { n, ok, err = t.box.take() })
	return n, ok, err
}

func (t *Turn) running() (running bool) {
	t.conn.update(func(*state) { running = !t.box.completed })
	return running
}

// maxInterrupts is how often we interrupt a turn of which codex says that it is
// not active, although it has not told us of its end.
const maxInterrupts = 5

// stop posts turn/interrupt; then runs once the turn has been stopped, or the
// connection is closed. Measured: codex takes 1 to 3 ms, and now and then the 105 ms
// after which it stops asking its own task nicely. Between its reply to turn/start and turn/started, codex
// 0.169 answers "no active turn to interrupt" and then runs the turn all the
// same, so an interrupt that comes too early is sent again at turn/started.
func (t *Turn) stop(tries int, then func()) {
	t.conn.postRetrying("turn/interrupt", t.interruptParams(), func(r rpc.Reply) {
		wait, again := false, false
		t.conn.update(func(s *state) {
			switch {
			case r.Error == nil || t.box.completed || s.closed:
			case !t.box.started:
				wait = true
				t.box.after(func() { t.stop(tries, then) })
			default:
				again = tries > 1
			}
		})
		switch {
		case again:
			t.stop(tries-1, then)
		case !wait:
			then()
		}
	})
}

func (t *Turn) interruptParams() (p turnInterruptParams) {
	t.conn.update(func(*state) { p = turnInterruptParams{ThreadID: t.threadID, TurnID: t.box.turnID} })
	return p
}

// Close ends the turn if it still runs and gives the thread back. The messages
// for that go out even when ctx has ended; ctx bounds the waiting for codex to
// agree. Closing again does nothing.
func (t *Turn) Close(ctx context.Context) error {
	closed := make(chan error, 1)
	if !t.leaveWith(func(r rpc.Reply) { closed <- r.Decode(nil) }) {
		return nil
	}
	select {
	case err := <-closed:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.conn.Done():
		return t.conn.Err()
	}
}

// leave is Close without waiting.
func (t *Turn) leave() { t.leaveWith(nil) }

// leaveWith interrupts if need be and, when that is answered, unsubscribes: a
// thread that nobody listens to goes on with its turn. It returns false when
// that has been done before.
func (t *Turn) leaveWith(then func(rpc.Reply)) bool {
	left := func(r rpc.Reply) {
		t.tail.let()
		if then != nil {
			then(r)
		}
	}
	first, running := false, false
	t.conn.update(func(*state) {
		if first = !t.box.left; first {
			t.box.left = true
			t.box.shut(ErrTurnClosed)
			running = !t.box.completed && t.box.turnID != ""
		}
	})
	switch {
	case first && running:
		t.stop(maxInterrupts, func() { t.unsubscribe(left) })
	case first:
		t.unsubscribe(left)
	}
	if first {
		t.startAhead()
	}
	return first
}

func (t *Turn) unsubscribe(then func(rpc.Reply)) {
	t.conn.update(func(s *state) { delete(s.threads, t.threadID) })
	t.conn.postRetrying("thread/unsubscribe", unsubscribeParams{ThreadID: t.threadID}, then)
}
