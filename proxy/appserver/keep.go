package appserver

import "context"

// Thread is a thread that has had its turn and stays loaded in codex, with all
// that was said, until StartTurn or Close. It belongs to one goroutine.
type Thread struct {
	conn  *Conn
	id    string
	total Usage // of its turns
}

// Keep gives up the turn and keeps its thread, in place of Close. It returns nil
// when there is nothing to keep: the turn has not ended by itself, or it has been
// closed. A kept thread costs codex 0.169 about 2 MiB.
func (t *Turn) Keep() *Thread {
	kept := false
	t.conn.update(func(s *state) {
		if kept = t.ended && t.box.completed && !t.box.left && t.box.end == nil; kept {
			t.box.left = true
			t.box.drop()
			delete(s.threads, t.threadID)
		}
	})
	if !kept {
		return nil
	}
	t.tail.let()
	t.startAhead()
	return &Thread{conn: t.conn, id: t.threadID, total: t.transcript.total}
}

// StartTurn goes on in the thread: r.Items are what is new since its last turn.
// Everything else of r must be as it was when the thread was started, because
// codex keeps it; r.Tools is what Turn needs to know them by. After an error the
// thread is gone.
func (th *Thread) StartTurn(ctx context.Context, r TurnRequest) (*Turn, error) {
	tail := newTail(r.Ended)
	defer tail.let()
	return th.conn.runTurn(ctx, th.id, th.total, nil, r, tail)
}

// Conn is the connection that the thread lives on, and ends with.
func (th *Thread) Conn() *Conn { return th.conn }

// Close lets codex unload the thread. It does not wait.
func (th *Thread) Close() {
	th.conn.postRetrying("thread/unsubscribe", unsubscribeParams{ThreadID: th.id}, nil)
}
