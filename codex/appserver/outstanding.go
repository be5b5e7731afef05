package appserver

import "sync/atomic"

// outstanding counts the work of codex for one TurnRequest: requests without a reply, and turns that have not ended.
type outstanding struct {
	count atomic.Int64
	ended func() // TurnRequest.Ended
}

// newOutstanding counts 1, for StartTurn.
func newOutstanding(ended func()) *outstanding {
	o := &outstanding{ended: ended}
	o.add()
	return o
}

func (o *outstanding) add() { o.count.Add(1) }

func (o *outstanding) done() {
	if o.count.Add(-1) == 0 && o.ended != nil {
		o.ended()
	}
}
