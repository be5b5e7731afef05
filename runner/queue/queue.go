// Package queue has the sessions and their commands from the request until the end: it admits commands within the
// bounds of the service and of each user, keeps their order, and decides which one starts next.
package queue

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/store"
)

// Key names a command.
type Key struct {
	Session string
	Number  int
}

// KeyOf is the key of a command.
func KeyOf(c store.Live) Key { return Key{c.Session, c.Number} }

// Settings of a Queue.
type Settings struct {
	MaxSessions int // commands that run at the same time
	MaxQueued   int // commands that wait
	Workspaces  int // at least MaxSessions
	Share       Share
	Registry    prometheus.Registerer // gets the metrics; nil for none
}

// Queue has the commands that have not ended. Its methods are safe for concurrent use.
//
// Its lock is the first one: under it, callers write to the store (Admit, IfIdle), and lock the commands that run
// (Next). Nothing locks it while it has another lock.
type Queue struct {
	Settings

	metrics *metrics
	wake    chan struct{} // holds one element if there may be a command to start

	mu      sync.Mutex // guards the rest
	state   state
	changed chan struct{} // closed and replaced at each change of a command
}

// New returns an empty queue.
func New(s Settings) *Queue {
	return &Queue{
		Settings: s, metrics: newMetrics(s.Registry), wake: make(chan struct{}, 1), changed: make(chan struct{}),
		state: state{lines: map[string]*line{}, perUser: map[uint32]int{}},
	}
}

// Wake returns a channel that has an element after a change: there may be a command to start.
func (q *Queue) Wake() <-chan struct{} { return q.wake }

// Changed returns a channel that is closed at the next change of a command.
func (q *Queue) Changed() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.changed
}

// Announce wakes the callers that wait for a change of a command, and the receiver of Wake.
func (q *Queue) Announce() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.announce()
}

func (q *Queue) announce() {
	close(q.changed)
	q.changed = make(chan struct{})
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Admit calls add, which stores n commands of a user and returns them, if there is room. The error is store.ErrState if
// their session is about to be closed.
func (q *Queue) Admit(owner uint32, session string, n int, add func() ([]store.Live, error)) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.room(owner, n); err != nil {
		q.metrics.refused.Inc()
		return err
	}
	if l := q.state.lines[session]; l != nil && l.closing {
		return store.ErrState
	}
	added, err := add()
	if err != nil {
		return err
	}
	for _, c := range added {
		q.state.enqueue(c)
	}
	q.announce()
	return nil
}

// Restore adds a command that waits since before the start of the daemon.
func (q *Queue) Restore(c store.Live) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.state.enqueue(c)
}

// RestoreRunning adds a command that runs since before the start of the daemon.
func (q *Queue) RestoreRunning(c store.Live) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.state.start(c)
}

// Next takes the next command that may start, calls begin with it, and reports whether there was one. Nobody sees the
// command neither wait nor run.
func (q *Queue) Next(begin func(store.Live)) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := &q.state
	if s.running >= q.MaxSessions {
		return false
	}
	leased := s.leased()
	k, ok := s.order.pop(s.perUser, func(k Key) bool {
		l := s.lines[k.Session]
		return q.Share.mayRun(l.owner, s.perUser[l.owner]) && (leased < q.Workspaces || l.leased)
	})
	if !ok {
		return false
	}
	l := s.lines[k.Session]
	q.metrics.wait.Observe(time.Since(l.waiting[0].since).Seconds())
	l.queued, l.waiting = false, l.waiting[1:]
	s.waiting--
	c := store.Live{Session: k.Session, Number: k.Number, Owner: l.owner, Network: l.network}
	s.start(c)
	begin(c)
	return true
}

// InputReady has a command wait for its start, after it has got its standard input.
func (q *Queue) InputReady(k Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.state.lines[k.Session]
	if l == nil {
		return
	}
	for i := range l.waiting {
		if w := &l.waiting[i]; w.number == k.Number {
			w.ready, w.since = true, time.Now()
		}
	}
	q.state.place(k.Session)
	q.announce()
}

// Remove takes a command that waits out of the queue, and reports whether it was there, and whether its session is to
// be closed now.
func (q *Queue) Remove(k Key) (owner uint32, removed, closing bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.state.lines[k.Session]; l != nil {
		owner = l.owner
	}
	removed = q.state.remove(k)
	return owner, removed, removed && q.state.forget(k.Session)
}

// Finish removes a command that has run, lets the next one of its session follow, and reports whether the session is to
// be closed now.
func (q *Queue) Finish(c store.Live) (closing bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.state.finish(c)
	q.announce()
	return q.state.forget(c.Session)
}

// CloseSoon has a session closed at the end of its last command, or reports that it can be closed now.
func (q *Queue) CloseSoon(session string) (now bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.state.lines[session]
	if l == nil {
		return true
	}
	l.closing = true
	return q.state.forget(session)
}

// IfIdle calls do if the session has no command, and can get none meanwhile. It reports whether it has called do.
func (q *Queue) IfIdle(session string, do func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state.lines[session] != nil {
		return false
	}
	do()
	return true
}

// Load returns how many commands run and how many wait.
func (q *Queue) Load() (running, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state.running, q.state.waiting
}

// Position is the place of a command among those that may start, from 1; 0 if it is not there.
func (q *Queue) Position(k Key) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, other := range q.state.order.all(q.state.perUser) {
		if other == k {
			return i + 1
		}
	}
	return 0
}

// NextPosition is the place that a new command would get; 0 if it would start at once.
func (q *Queue) NextPosition() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state.running < q.MaxSessions {
		return 0
	}
	return len(q.state.order.all(nil)) + 1
}

// room returns an error if the queue, or a user's share of it, has no room for n more commands.
func (q *Queue) room(owner uint32, n int) error {
	if q.state.waiting+n > q.MaxQueued {
		return wire.Refuse(wire.QueueFull, "try again later", "%d commands wait already, of at most %d",
			q.state.waiting, q.MaxQueued)
	}
	return q.Share.mayQueue(owner, q.state.waitingOf, n)
}
