package appserver

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// minWaiting is how many bytes a turn has waiting at least when a Backlog considers it.
	minWaiting = 32 << 10
	// maxIdle is how long a consumer may take nothing before its turn may be ended: it needs time after a burst. It
	// shrinks while the backlog exceeds its limit, because the growth in that time is not bounded, down to minIdle.
	maxIdle, minIdle = time.Second, time.Second / 10
	// checkInterval is the least time between two checks of the turns.
	checkInterval = 10 * time.Millisecond
)

// Backlog bounds the sum of the bytes that the turns of several connections have waiting for their consumers: slow
// clients are many or none. Beyond the limit the turns with the longest idle consumers are ended with
// ErrSlowConsumer. All goroutines may use it.
type Backlog struct {
	limit   int64
	bytes   atomic.Int64
	checked atomic.Int64 // when the turns were last checked, in ticks

	mu    sync.Mutex
	turns map[*Turn]struct{} // with minWaiting or more
}

// NewBacklog makes a Backlog with a limit in bytes.
func NewBacklog(limit int64) *Backlog { return &Backlog{limit: limit, turns: map[*Turn]struct{}{}} }

// began is the origin of ticks.
var began = time.Now()

// ticks are nanoseconds of the monotonic clock: their differences stay true when the wall clock is set.
func ticks(at time.Time) int64 { return int64(at.Sub(began)) }

// changed records that the waiting bytes of a turn have changed from before to after.
func (b *Backlog) changed(t *Turn, before, after int) {
	if b == nil {
		return
	}
	b.bytes.Add(int64(after - before))
	if (before >= minWaiting) == (after >= minWaiting) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if after >= minWaiting {
		b.turns[t] = struct{}{}
	} else {
		delete(b.turns, t)
	}
}

// relieve ends turns while the backlog exceeds its limit. It must not be called inside Conn.update.
func (b *Backlog) relieve() {
	if b == nil || b.bytes.Load() <= b.limit {
		return
	}
	now, last := time.Now(), b.checked.Load()
	if ticks(now)-last < int64(checkInterval) || !b.checked.CompareAndSwap(last, ticks(now)) {
		return
	}
	for _, t := range b.slowest(now) {
		if b.bytes.Load() <= b.limit {
			return
		}
		t.endSlow()
	}
}

// slowest are the turns with an idle consumer, the longest idle first.
func (b *Backlog) slowest(now time.Time) (list []*Turn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	since, maxIdle := map[*Turn]int64{}, b.maxIdle()
	for t := range b.turns {
		if idle := t.box.idleSince.Load(); ticks(now)-idle > int64(maxIdle) {
			since[t] = idle
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b *Turn) int { return int(since[a] - since[b]) })
	return list
}

// maxIdle is half of the constant when the backlog is twice its limit.
func (b *Backlog) maxIdle() time.Duration {
	over := max(1, float64(b.bytes.Load())/float64(b.limit))
	return max(minIdle, time.Duration(float64(maxIdle)/over))
}

// endSlow ends a turn that is not read.
func (t *Turn) endSlow() {
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
