package appserver

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// slow is what a turn has waiting at least to be looked at by a Backlog.
	slow = 32 << 10
	// stalled is how long its consumer has taken nothing when it may be ended: the
	// one of a turn that has just brought much has not had the time. It is less when
	// there is more than the limit, as what comes in that time is not bounded, and
	// no less than leastStalled.
	stalled, leastStalled = time.Second, time.Second / 10
	// relief is how often the turns are looked at, at most.
	relief = 10 * time.Millisecond
)

// Backlog bounds what the turns of several connections have waiting for their
// consumers, all together: slow clients are many or none. Beyond the limit those
// turns whose consumers have stood still for longest are ended with
// ErrSlowConsumer. All goroutines may use it.
type Backlog struct {
	limit  int64
	bytes  atomic.Int64
	looked atomic.Int64 // when the turns were last looked at, in ticks

	mu    sync.Mutex
	turns map[*Turn]struct{} // with much waiting
}

// NewBacklog bounds them to limit bytes.
func NewBacklog(limit int64) *Backlog { return &Backlog{limit: limit, turns: map[*Turn]struct{}{}} }

// began is where ticks are counted from.
var began = time.Now()

// ticks are nanoseconds whose differences stay true when the clock is set.
func ticks(at time.Time) int64 { return int64(at.Sub(began)) }

// changed takes over that a turn has after bytes waiting in place of before.
func (b *Backlog) changed(t *Turn, before, after int) {
	if b == nil {
		return
	}
	b.bytes.Add(int64(after - before))
	if (before >= slow) == (after >= slow) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if after >= slow {
		b.turns[t] = struct{}{}
	} else {
		delete(b.turns, t)
	}
}

// relieve ends turns while there is too much. It must not be called inside a door.
func (b *Backlog) relieve() {
	if b == nil || b.bytes.Load() <= b.limit {
		return
	}
	now, last := time.Now(), b.looked.Load()
	if ticks(now)-last < int64(relief) || !b.looked.CompareAndSwap(last, ticks(now)) {
		return
	}
	for _, t := range b.slowest(now) {
		if b.bytes.Load() <= b.limit {
			return
		}
		t.tooSlow()
	}
}

// slowest are the turns that stand still, the longest first.
func (b *Backlog) slowest(now time.Time) (list []*Turn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	since, patience := map[*Turn]int64{}, b.patience()
	for t := range b.turns {
		if still := t.box.still.Load(); ticks(now)-still > int64(patience) {
			since[t] = still
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b *Turn) int { return int(since[a] - since[b]) })
	return list
}

// patience is half of stalled when there is twice as much as the limit.
func (b *Backlog) patience() time.Duration {
	over := max(1, float64(b.bytes.Load())/float64(b.limit))
	return max(leastStalled, time.Duration(float64(stalled)/over))
}

// tooSlow ends a turn that is not read.
func (t *Turn) tooSlow() {
	ended, turnID := false, ""
	t.conn.update(func(*state) {
		if ended = t.box.end == nil; ended {
			t.box.shut(ErrSlowConsumer)
			ended, turnID = !t.box.completed, t.box.turnID
		}
	})
	if ended {
		t.conn.interruptSlow(t.threadID, turnID)
	}
}
