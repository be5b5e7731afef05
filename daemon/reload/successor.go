package reload

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"codex-proxy/daemon/inflight"
	"codex-proxy/notify/handoff"
	"codex-proxy/workers/control"
)

// maxOrders is how many orders of the successor may wait. It sends one change at a time and
// waits up to confirmBound for each.
const maxOrders = 64

// Successor is the process after this one.
type Successor struct {
	serving chan struct{}
	process *handoff.Successor // set before serving is closed

	changes atomic.Uint64 // of the successor, in force here
}

// NewSuccessor returns the connection of a process that has no successor yet.
func NewSuccessor() *Successor { return &Successor{serving: make(chan struct{})} }

// Took connects the process that serves in this one's place.
func (s *Successor) Took(process *handoff.Successor) {
	s.process = process
	close(s.serving)
}

// Serving returns a channel that is closed when the successor serves.
func (s *Successor) Serving() <-chan struct{} { return s.serving }

// Serves reports whether the successor serves.
func (s *Successor) Serves() bool { return isClosed(s.serving) }

// Stop asks the successor to stop: this process received a signal for the main process.
func (s *Successor) Stop() { s.process.Stop() }

// SendTurns reports the load of this process and its predecessors.
func (s *Successor) SendTurns(turns map[string]int, l inflight.Load) {
	s.process.Send(handoff.Turns, Turns{Changes: s.changes.Load(), Inflight: turns, Load: &l})
}

// PassLink passes on a connection with which the successor goes on.
func (s *Successor) PassLink(about any, fds ...int) error { return s.Pass(handoff.Link, about, fds...) }

// Pass sends a message with descriptors, which stay open here.
func (s *Successor) Pass(kind handoff.Kind, about any, fds ...int) error {
	return s.process.Pass(kind, about, fds...)
}

// Orders are the orders of a successor to a process.
type Orders struct {
	Load   func(inflight.Load)   // counts the successor's load; it must not block
	Drain  func()                // takes no new turns, as the unit stops
	Hasten func()                // cuts turns off, as the unit must stop now
	Drains func(control.Drain)   // puts a change of the drains into force
	Keys   func(json.RawMessage) // puts a key file into force
	Report func()                // reports that a change is in force
	Ended  func()                // the successor has ended
}

// Follow carries out the successor's orders until it has ended or ctx has.
func (s *Successor) Follow(ctx context.Context, o Orders) {
	s.carryOut(func(handle func(handoff.Message) bool) { s.process.Follow(ctx, handle) }, o)
}

// carryOut counts a load at once, and carries out all else in order on another goroutine:
// an order may wait for the lock under which a claim waits for the next load.
func (s *Successor) carryOut(follow func(handle func(handoff.Message) bool), o Orders) {
	queue := make(chan func(), maxOrders)
	var orders sync.WaitGroup
	defer orders.Wait()
	defer close(queue)
	orders.Go(func() {
		for order := range queue {
			order()
		}
	})
	follow(func(m handoff.Message) bool {
		if m.Kind == handoff.Load {
			countLoad(m.Body, o.Load)
			return true
		}
		order := s.order(m, o)
		if order == nil {
			return false
		}
		queue <- order
		return true
	})
	o.Ended()
}

func countLoad(body json.RawMessage, count func(inflight.Load)) {
	var l load
	if json.Unmarshal(body, &l) == nil && l.Load != nil {
		count(*l.Load)
	}
}

// order returns the order in m; nil if its kind is unknown.
func (s *Successor) order(m handoff.Message, o Orders) func() {
	switch m.Kind {
	case handoff.Drain:
		return o.Drain
	case handoff.Hasten:
		return o.Hasten
	case handoff.Drains:
		return s.change(o, func() {
			var change control.Drain
			if json.Unmarshal(m.Body, &change) == nil {
				o.Drains(change)
			}
		})
	case handoff.Keys:
		return s.change(o, func() { o.Keys(m.Body) })
	default:
		return nil
	}
}

// change counts a change after it is in force.
func (s *Successor) change(o Orders, apply func()) func() {
	return func() {
		apply()
		s.changes.Add(1)
		o.Report()
	}
}
