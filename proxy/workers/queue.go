package workers

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"codex-proxy/proxy/appserver"
)

// ErrQueueFull means that every worker with the model is busy, and that as many
// requests wait as may. Whoever is turned away is of the key with the most.
var ErrQueueFull = errors.New("the queue is full")

// Queue bounds the waiting for a worker.
type Queue struct {
	Limit   int           // requests that may wait, at least 1
	Timeout time.Duration // the longest that one waits
}

// Ask is what a request wants of the pool.
type Ask struct {
	Model string
	// Key is the name of the request's API key; without a name it is one key, too.
	Key string
	// Lost is the place on which the request's turn was lost; Admit gives it
	// back. Such a request still counts as in flight: it waits ahead of all
	// others, and neither the queue's limit nor a drain turns it away.
	Lost *Lease
	// Arrived orders the requests that wait again.
	Arrived time.Time
	// Avoid are connections that a turn of this request was lost on.
	Avoid []*appserver.Conn
	// Decoding is how many bytes codex needs to decode the images of the request.
	Decoding int64
	// Prefer names the worker that serves it if it has a place just now; empty
	// is no preference.
	Prefer string
}

// queue holds the requests that wait for a place on a worker. It serves lost
// turns first, then one request of each waiting key after the other, within a
// key the oldest first. Every place is taken through it, so no request overtakes
// another one for the same model; except that a request without images passes those
// that wait with images. Whatever may free a place calls wake; nothing is
// polled.
type queue struct {
	Queue
	pick func(Ask) (*Lease, error)

	waiting atomic.Int64 // how many; changed under mu

	mu    sync.Mutex
	again []*waiter            // lost turns, oldest request first
	keys  []string             // keys that wait, the next to be served first
	lines map[string][]*waiter // of each of keys, oldest first, never empty

	// images are those that wait for room for their images, by the model. Smaller ones
	// that come after them would keep them waiting for ever.
	images map[string]*waiter
}

func (a Ask) again() bool { return a.Lost != nil }

type waiter struct {
	ask     Ask
	since   time.Time
	verdict error       // why it still waits
	answer  chan answer // capacity 1; sent once, by who takes it out of the queue
}

type answer struct {
	lease *Lease
	err   error
}

func newQueue(q Queue, pick func(Ask) (*Lease, error)) *queue {
	return &queue{Queue: q, pick: pick, lines: map[string][]*waiter{}, images: map[string]*waiter{}}
}

// enter answers at once who can be, and makes the others wait.
func (q *queue) enter(a Ask) *waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := &waiter{ask: a, since: time.Now(), answer: make(chan answer, 1)}
	if len(q.again) == 0 && len(q.keys) == 0 { // mostly nobody waits, and there is a place
		if lease, err := q.pick(a); err == nil {
			w.answer <- answer{lease: lease}
			return w
		}
	}
	q.add(w)
	q.serve()
	if len(w.answer) == 0 && !a.again() && q.depth() > q.Limit {
		q.turnAway(q.victim(w))
	}
	return w
}

// wake serves those who wait after something has changed.
func (q *queue) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.serve()
}

// leave takes w out and returns why it was still waiting; false means that it
// has been answered already.
func (q *queue) leave(w *waiter) (verdict error, waited bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(w.answer) > 0 {
		return nil, false
	}
	q.remove(w)
	q.serve() // those that its images kept waiting
	return w.verdict, true
}

// look is the number of those who wait and how long the first has waited.
func (q *queue) look(now time.Time) (depth int, oldest time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for w := range q.all {
		oldest = max(oldest, now.Sub(w.since))
	}
	return q.depth(), oldest
}

// What follows is called under the lock.

func (q *queue) all(yield func(*waiter) bool) {
	for _, w := range q.again {
		if !yield(w) {
			return
		}
	}
	for _, key := range q.keys {
		for _, w := range q.lines[key] {
			if !yield(w) {
				return
			}
		}
	}
}

func (q *queue) depth() int {
	n := len(q.again)
	for _, line := range q.lines {
		n += len(line)
	}
	return n
}

func (q *queue) add(w *waiter) {
	q.waiting.Add(1)
	if w.ask.again() {
		at, _ := slices.BinarySearchFunc(q.again, w, func(a, b *waiter) int { return a.ask.Arrived.Compare(b.ask.Arrived) })
		q.again = slices.Insert(q.again, at, w)
		return
	}
	key := w.ask.Key
	if len(q.lines[key]) == 0 {
		q.keys = append(q.keys, key)
	}
	q.lines[key] = append(q.lines[key], w)
}

func (q *queue) remove(w *waiter) {
	if q.images[w.ask.Model] == w {
		delete(q.images, w.ask.Model)
	}
	q.waiting.Add(-1)
	is := func(other *waiter) bool { return other == w }
	if w.ask.again() {
		q.again = slices.DeleteFunc(q.again, is)
		return
	}
	key := w.ask.Key
	q.lines[key] = slices.DeleteFunc(q.lines[key], is)
	if len(q.lines[key]) == 0 {
		delete(q.lines, key)
		q.keys = slices.DeleteFunc(q.keys, func(other string) bool { return other == key })
	}
}

// serve answers everyone who can be answered now, in the order of their turns.
func (q *queue) serve() {
	refused := map[asked]error{}
	for {
		w, a := q.next(refused)
		if w == nil {
			return
		}
		if q.images[w.ask.Model] == w {
			delete(refused, asked{w.ask.Model, false, true})
		}
		q.remove(w)
		if key := w.ask.Key; a.lease != nil && !w.ask.again() && len(q.lines[key]) > 0 {
			q.keys = append(slices.DeleteFunc(q.keys, func(other string) bool { return other == key }), key)
		}
		w.answer <- a
	}
}

// next is the first in turn who can be answered. refused remembers what was
// said: a place that gets free meanwhile wakes the queue again.
func (q *queue) next(refused map[asked]error) (*waiter, answer) {
	for w := range q.all {
		lease, err := q.try(w, refused)
		if err == nil || final(err) {
			return w, answer{lease, err}
		}
		w.verdict = err
	}
	return nil, answer{}
}

func (q *queue) try(w *waiter, refused map[asked]error) (*Lease, error) {
	if len(w.ask.Avoid) > 0 { // what holds for it need not hold for others
		return q.pick(w.ask)
	}
	of := asked{w.ask.Model, w.ask.again(), w.ask.Decoding > 0}
	if err := refused[of]; err != nil {
		return nil, err
	}
	if first := q.images[of.model]; of.images && !of.again && first != nil && first != w {
		return nil, ErrDecoding
	}
	lease, err := q.pick(w.ask)
	if err != nil {
		refused[of] = err
	}
	if errors.Is(err, ErrDecoding) && q.images[of.model] == nil {
		q.images[of.model] = w
	}
	return lease, err
}

// asked is what a refusal depends on: a drain turns no lost turn away, and images
// need room of their own.
type asked struct {
	model  string
	again  bool
	images bool
}

// final tells what waiting does not change.
func final(err error) bool {
	return errors.Is(err, ErrDraining) || errors.Is(err, ErrNoModel) || errors.Is(err, errGivenUp)
}

// victim is the newest request of the key that has the most waiting: a key that
// floods the queue turns away its own requests, not those of others.
func (q *queue) victim(newcomer *waiter) *waiter {
	longest := q.lines[newcomer.ask.Key]
	for _, key := range q.keys {
		if line := q.lines[key]; len(line) > len(longest) {
			longest = line
		}
	}
	return longest[len(longest)-1]
}

func (q *queue) turnAway(w *waiter) {
	q.remove(w)
	err := w.verdict
	if errors.Is(err, ErrBusy) {
		err = ErrQueueFull
	}
	w.answer <- answer{err: err}
	q.serve()
}
