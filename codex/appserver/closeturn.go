package appserver

import (
	"context"
	"sync"

	"codex-proxy/codex/rpc"
	"codex-proxy/codex/wire"
)

// Close ends the turn if it still runs and unsubscribes from its thread. It sends the messages for that even when ctx
// has ended; ctx bounds the wait for the replies. Closing again does nothing.
func (t *Turn) Close(ctx context.Context) error {
	closed := make(chan error, 1)
	if !t.closeAsync(func(r rpc.Reply) { closed <- r.Decode(nil) }) {
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

// Leave is Close for a turn that its worker need not confirm. It does not wait.
func (t *Turn) Leave() { t.closeAsync(nil) }

// closeAsync is Close without waiting. It interrupts the turn if need be and then unsubscribes, because the turn of an
// unsubscribed thread continues; then, if not nil, runs at the reply. It returns false if the turn was closed before.
func (t *Turn) closeAsync(then func(rpc.Reply)) bool {
	unsubscribed := func(r rpc.Reply) {
		t.outstanding.done()
		if then != nil {
			then(r)
		}
	}
	first, running := false, false
	var ended func() // of a running turn
	t.conn.update(func(*state) {
		if first = !t.box.closed; first {
			t.box.closed = true
			t.box.queue.Shut(ErrTurnClosed)
			running = !t.box.completed && t.box.turnID != ""
		}
		if running {
			ended = sync.OnceFunc(func() { t.unsubscribe(unsubscribed) })
			t.box.onEnd = ended
		}
	})
	switch {
	case first && running:
		t.interrupt(maxInterrupts, ended)
	case first:
		t.unsubscribe(unsubscribed)
	}
	if first {
		t.prestartNext()
	}
	return first
}

func (t *Turn) unsubscribe(then func(rpc.Reply)) {
	t.conn.update(func(s *state) { delete(s.threads, t.threadID) })
	t.conn.unsubscribe(t.threadID, then)
}

// maxInterrupts is how often a turn is interrupted that codex reports as not active before it has reported its end.
const maxInterrupts = 5

// interrupt posts turn/interrupt; then runs once the turn has been stopped, or the connection is closed. codex 0.140
// and 0.153 do not always answer, but report the end of the turn. Measured: codex takes 1 to 3 ms, and now and then
// 105 ms, after which it aborts its own task. Between its reply to turn/start and turn/started, codex 0.169 answers
// "no active turn to interrupt" and then runs the turn all the same, so an early interrupt is sent again at
// turn/started.
func (t *Turn) interrupt(tries int, then func()) {
	var params wire.TurnInterrupt
	t.conn.update(func(*state) { params = wire.TurnInterrupt{ThreadID: t.threadID, TurnID: t.box.turnID} })
	rpc.PostWhileOverloaded(t.conn.Conn, "turn/interrupt", params, func(r rpc.Reply) {
		wait, again := false, false
		t.conn.update(func(s *state) {
			switch {
			case r.Error == nil || t.box.completed || s.closed:
			case !t.box.started:
				wait = true
				t.box.afterStart(func() { t.interrupt(tries, then) })
			default:
				again = tries > 1
			}
		})
		switch {
		case again:
			t.interrupt(tries-1, then)
		case !wait:
			then()
		}
	})
}
