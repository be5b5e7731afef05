package delivery

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

	mu     sync.Mutex
	queues map[*Queue]struct{} // with minWaiting or more
}

// NewBacklog makes a Backlog with a limit in bytes.
func NewBacklog(limit int64) *Backlog { return &Backlog{limit: limit, queues: map[*Queue]struct{}{}} }

// began is the origin of ticks.
var began = time.Now()

// ticks are nanoseconds of the monotonic clock: their differences stay true when the wall clock is set.
func ticks(at time.Time) int64 { return int64(at.Sub(began)) }

// Bytes is how many bytes wait now.
func (b *Backlog) Bytes() int64 { return b.bytes.Load() }

// changed records that the waiting bytes of a queue have changed from before to after.
func (b *Backlog) changed(q *Queue, before, after int) {
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
		b.queues[q] = struct{}{}
	} else {
		delete(b.queues, q)
	}
}

// Relieve ends turns while the backlog exceeds its limit. Its caller must not hold the lock of a queue.
func (b *Backlog) Relieve() {
	if b == nil || b.Bytes() <= b.limit {
		return
	}
	now, last := time.Now(), b.checked.Load()
	if ticks(now)-last < int64(checkInterval) || !b.checked.CompareAndSwap(last, ticks(now)) {
		return
	}
	for _, q := range b.slowest(now) {
		if b.Bytes() <= b.limit {
			return
		}
		q.turn.EndSlow()
	}
}

// slowest are the queues with an idle consumer, the longest idle first.
func (b *Backlog) slowest(now time.Time) (list []*Queue) {
	b.mu.Lock()
	defer b.mu.Unlock()
	since, maxIdle := map[*Queue]int64{}, b.maxIdle()
	for q := range b.queues {
		if idle := q.idleSince.Load(); ticks(now)-idle > int64(maxIdle) {
			since[q] = idle
			list = append(list, q)
		}
	}
	slices.SortFunc(list, func(a, b *Queue) int { return int(since[a] - since[b]) })
	return list
}

// maxIdle is half of the constant when the backlog is twice its limit.
func (b *Backlog) maxIdle() time.Duration {
	over := max(1, float64(b.Bytes())/float64(b.limit))
	return max(minIdle, time.Duration(float64(maxIdle)/over))
}
