package appserver

import "sync/atomic"

// Backlog bounds what the turns of several connections have waiting for their
// consumers, all together: slow clients are many or none. Beyond the limit a turn
// whose own part is more than fair is ended with ErrSlowConsumer as soon as more
// comes for it. All goroutines may use it.
type Backlog struct {
	limit int64
	bytes atomic.Int64
	turns atomic.Int64 // that have something waiting
}

// NewBacklog bounds them to limit bytes.
func NewBacklog(limit int64) *Backlog { return &Backlog{limit: limit} }

// Bytes is what waits now.
func (b *Backlog) Bytes() int64 { return b.bytes.Load() }

// changed takes over that a turn has after bytes waiting in place of before.
func (b *Backlog) changed(before, after int) {
	if b == nil {
		return
	}
	b.bytes.Add(int64(after - before))
	switch {
	case before == 0 && after > 0:
		b.turns.Add(1)
	case before > 0 && after == 0:
		b.turns.Add(-1)
	}
}

// unfair reports whether a turn with so many bytes has to go.
func (b *Backlog) unfair(bytes int) bool {
	return b != nil && b.bytes.Load() > b.limit && int64(bytes) > b.limit/max(b.turns.Load(), 1)
}
