package dispatch

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"codex-proxy/probes"
)

// ErrQueueFull means that every worker with the model is busy, and that the queue
// is at its limit. The request that gets it is of the key with the most requests.
var ErrQueueFull = errors.New("the queue is full")

// Queue bounds the wait for a slot. All durations must be positive.
type Queue struct {
	Limit int // requests that may wait, at least 1
	// Timeout is the longest that a request waits: for the end of other turns, mostly.
	Timeout time.Duration
	// ReadyTimeout is the longest that a request waits, at a time, while no worker that
	// may have its model is ready.
	ReadyTimeout time.Duration
}

// queue holds the requests that wait for a slot, in the order of line. Every slot
// is acquired through it, so no request overtakes another one for the same model;
// except that a request without images passes those that wait with images. Every
// change that may free a slot calls wake; nothing is polled.
type queue struct {
	Queue
	pick func(Ask) (*Lease, error)

	waiting atomic.Int64 // how many; changed under mu

	mu sync.Mutex
	waitList
	// images has, by the model and the accounts, the request that waits for room for its
	// images. Smaller requests behind it would otherwise keep it waiting for ever.
	images map[lane]*waiter
}

type waiter struct {
	ask     Ask
	since   time.Time
	verdict error       // why it still waits
	absent  time.Time   // since when no worker is ready for it; zero: one is, and busy
	expiry  *time.Timer // of the wait; nil for a request that never waited

	heldUntil time.Time   // its conversation may not rotate before; zero: it may
	held      *time.Timer // wakes the queue at heldUntil
	answer    chan answer // capacity 1; sent once, when the queue removes the waiter
}

type answer struct {
	lease *Lease
	err   error
}

func newQueue(q Queue, pick func(Ask) (*Lease, error)) *queue {
	return &queue{Queue: q, pick: pick, waitList: waitList{byKey: map[string][]*waiter{}}, images: map[lane]*waiter{}}
}

// enter answers the request at once if it can, and queues it otherwise.
func (q *queue) enter(a Ask) *waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := &waiter{ask: a, since: time.Now(), answer: make(chan answer, 1)}
	if q.empty() { // mostly no request waits, and there is a slot
		if lease, err := q.pick(a); err == nil {
			w.answer <- answer{lease: lease}
			return w
		}
	}
	w.expiry = time.NewTimer(q.Timeout)
	q.add(w)
	if ahead := q.ahead(w); ahead != nil {
		q.judge(w, ahead.verdict)
	} else {
		q.serve()
	}
	if len(w.answer) == 0 && !a.again() && q.depth() > q.Limit {
		q.refuse(q.victim(w))
	}
	return w
}

// wake serves the queue after a change.
func (q *queue) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.serve()
}

// save removes w; false means that it was answered before.
func (q *queue) leave(w *waiter) (waited bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(w.answer) > 0 {
		return false
	}
	q.quit(w)
	return true
}

// expire removes w and returns why it was still waiting. It returns nil if w was answered
// before, or may go on waiting: a worker that was awaited is ready, and busy.
func (q *queue) expire(w *waiter) (verdict error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(w.answer) > 0 {
		return nil
	}
	if left := time.Until(q.deadline(w)); left > 0 {
		w.expiry.Reset(left)
		return nil
	}
	q.quit(w)
	return w.verdict
}

// look is the number of waiting requests and how long the oldest has waited.
func (q *queue) look(now time.Time) (depth int, oldest time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for w := range q.all {
		oldest = max(oldest, now.Sub(w.since))
	}
	return q.depth(), oldest
}

// report is the state of the queue that the probes publish.
func (q *queue) report(now time.Time) probes.Queue {
	depth, oldest := q.look(now)
	return probes.Queue{Depth: depth, Limit: q.Limit, OldestWaitMS: float64(oldest.Microseconds()) / 1000}
}

// The methods below are called under the lock.

func (q *queue) add(w *waiter) {
	q.waiting.Add(1)
	q.waitList.add(w)
}

func (q *queue) remove(w *waiter) {
	if of := laneOf(w.ask); q.images[of] == w {
		delete(q.images, of)
	}
	if w.held != nil {
		w.held.Stop()
	}
	q.waiting.Add(-1)
	q.waitList.remove(w)
}

// quit removes a request that was not answered. It frees no slot, but requests with images
// may have waited for room behind it.
func (q *queue) quit(w *waiter) {
	first := q.images[laneOf(w.ask)] == w
	q.remove(w)
	if first {
		q.serve()
	}
}

// ahead is the request of the same key and kind right before w in the line, if it has one:
// w is served after it, and until then waits for the same reason; unless that reason is the
// conversation's own.
func (q *queue) ahead(w *waiter) *waiter {
	before := q.before(w)
	if before == nil || kindOf(before.ask) != kindOf(w.ask) || errors.Is(before.verdict, ErrHeld) {
		return nil
	}
	return before
}

// deadline is the end of the wait.
func (q *queue) deadline(w *waiter) time.Time {
	end := w.since.Add(q.Timeout)
	if w.absent.IsZero() {
		return end
	}
	if soon := w.absent.Add(q.ReadyTimeout); soon.Before(end) {
		return soon
	}
	return end
}

// judge records why w waits. The bound of the wait depends on it.
func (q *queue) judge(w *waiter, verdict error) {
	w.verdict = verdict
	q.hold(w)
	switch busy := errors.Is(verdict, ErrBusy); {
	case busy == w.absent.IsZero():
		return
	case busy:
		w.absent = time.Time{}
	default:
		w.absent = time.Now()
	}
	w.expiry.Reset(time.Until(q.deadline(w)))
}

// hold has the queue woken when the conversation of w may rotate.
func (q *queue) hold(w *waiter) {
	until := heldUntil(w.verdict)
	switch {
	case until.Equal(w.heldUntil):
		return
	case w.held != nil:
		w.held.Stop()
	}
	if w.heldUntil = until; !until.IsZero() {
		w.held = time.AfterFunc(time.Until(until), q.wake)
	}
}

// serve answers every request that can be answered now, in the order of the line.
func (q *queue) serve() {
	refused := map[kind]error{}
	for {
		w, a := q.next(refused)
		if w == nil {
			return
		}
		if of := laneOf(w.ask); q.images[of] == w {
			delete(refused, kind{of, false, true})
		}
		q.remove(w)
		if a.lease != nil && !w.ask.again() {
			q.rotate(w.ask.Key)
		}
		w.answer <- a
	}
}

// next is the first request in line that can be answered. refused keeps the
// refusals of this round: a slot that becomes free meanwhile wakes the queue again.
func (q *queue) next(refused map[kind]error) (*waiter, answer) {
	for w := range q.all {
		lease, err := q.try(w, refused)
		if err == nil || final(err) {
			return w, answer{lease, err}
		}
		q.judge(w, err)
	}
	return nil, answer{}
}

func (q *queue) try(w *waiter, refused map[kind]error) (*Lease, error) {
	if len(w.ask.Avoid)+len(w.ask.Refused) > 0 { // its refusal need not hold for other requests
		return q.pick(w.ask)
	}
	of := kindOf(w.ask)
	if err := refused[of]; err != nil {
		return nil, err
	}
	if first := q.images[of.lane]; of.images && !of.again && first != nil && first != w {
		return nil, ErrDecoding
	}
	lease, err := q.pick(w.ask)
	if err != nil && !errors.Is(err, ErrHeld) {
		refused[of] = err
	}
	if errors.Is(err, ErrDecoding) && q.images[of.lane] == nil {
		q.images[of.lane] = w
	}
	return lease, err
}

// lane is the workers that requests wait for.
type lane struct{ model, accounts string }

func laneOf(a Ask) lane {
	if a.Accounts == nil {
		return lane{model: a.Model}
	}
	return lane{a.Model, "\n" + strings.Join(a.Accounts, "\n")} // no account is not all
}

// kind is the basis of a refusal: a drain refuses no lost turn, and images need
// room of their own.
type kind struct {
	lane
	again  bool
	images bool
}

func kindOf(a Ask) kind { return kind{laneOf(a), a.again(), a.Decoding > 0} }

// final reports whether waiting does not change the refusal.
func final(err error) bool {
	return errors.Is(err, ErrDraining) || errors.Is(err, ErrNoModel) || errors.Is(err, ErrGivenUp) || out(err)
}

func (q *queue) refuse(w *waiter) {
	q.quit(w)
	err := w.verdict
	if errors.Is(err, ErrBusy) {
		err = ErrQueueFull
	}
	w.answer <- answer{err: err}
}
