package appserver

import "sync/atomic"

// tail counts what codex has still to do for one request for a turn: calls that it
// has not answered, and turns that it has not ended.
type tail struct {
	open  atomic.Int64
	ended func() // TurnRequest.Ended
}

// newTail is held once, by StartTurn.
func newTail(ended func()) *tail {
	t := &tail{ended: ended}
	t.hold()
	return t
}

func (t *tail) hold() { t.open.Add(1) }

func (t *tail) let() {
	if t.open.Add(-1) == 0 && t.ended != nil {
		t.ended()
	}
}
