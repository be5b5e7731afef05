package appserver

import (
	"context"
	"errors"

	"codex-proxy/codex/rpc"
	"codex-proxy/codex/wire"
)

// Thread is a thread without a running turn that stays loaded in codex, with its history, until StartTurn or Close.
// One goroutine may use it.
type Thread struct {
	conn  *Conn
	id    string
	total Usage // of its turns

	environment *Environment // of its turns; nil: the one of codex's configuration
}

// ErrEnvironment is the error of a turn in a thread with another environment: its session has ended, and another one
// has begun.
var ErrEnvironment = errors.New("the thread executes commands in another environment")

// Keep closes the turn, like Close, but keeps its thread. It returns nil if there is nothing to keep: the turn was
// interrupted or closed, or still runs. A kept thread costs codex 0.169 about 2 MiB.
func (t *Turn) Keep() *Thread {
	kept := false
	t.conn.update(func(s *state) {
		if kept = t.ended && t.box.completed && !t.box.closed && t.box.queue.End() == nil; kept {
			t.box.closed = true
			t.box.queue.Clear()
			delete(s.threads, t.threadID)
		}
	})
	if !kept {
		return nil
	}
	t.outstanding.done()
	t.prestartNext()
	return &Thread{conn: t.conn, id: t.threadID, total: t.transcript.total, environment: t.environment}
}

// StartTurn starts another turn in the thread: r.Items are the items since its last turn. Everything else of r must
// have the values that the thread was started with, because codex keeps those; r.Tools only has the names by which
// Turn recognises calls. After an error the thread is closed. The error is ErrEnvironment if r has another environment
// than the thread.
func (th *Thread) StartTurn(ctx context.Context, r TurnRequest) (*Turn, error) {
	s := starting{conn: th.conn, request: r, outstanding: newOutstanding(r.Ended)}
	defer s.outstanding.done()
	if !th.in(r.Environment) {
		th.Close()
		return nil, ErrEnvironment
	}
	return s.inThread(ctx, th.id, th.total)
}

// in reports whether the thread executes commands in the environment; nil: in the one of codex's configuration.
func (th *Thread) in(e *Environment) bool {
	if th.environment == nil || e == nil {
		return th.environment == e
	}
	return *th.environment == *e
}

// Conn is the connection of the thread, which ends with it.
func (th *Thread) Conn() *Conn { return th.conn }

// Close makes codex unload the thread. It does not wait.
func (th *Thread) Close() { th.conn.unsubscribe(th.id, nil) }

// unsubscribe makes codex unload a thread; then, if not nil, runs at the reply.
func (c *Conn) unsubscribe(threadID string, then func(rpc.Reply)) {
	rpc.PostWhileOverloaded(c.Conn, "thread/unsubscribe", wire.ThreadUnsubscribe{ThreadID: threadID}, then)
}
