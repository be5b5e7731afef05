// Package reload connects the processes of a row of reloads while they run beside each
// other: the successor passes orders and changes on to its predecessor, and each of the two
// reports its load. People ask for a reload over a socket.
package reload

import (
	"context"
	"maps"

	"codex-proxy/daemon/inflight"
	"codex-proxy/internal/nudge"
	"codex-proxy/workers"
)

// Loads sends the load of this process to its neighbours, and takes over theirs.
type Loads struct {
	predecessor *Predecessor
	successor   *Successor
	counter     *inflight.Counter
	pool        *workers.Pool

	changed nudge.Nudge // holds a token when a neighbour must get the load
	freed   nudge.Nudge // holds a token when another process may have given places back
}

// NewLoads returns the loads of a process. Connect must follow.
func NewLoads(predecessor *Predecessor, successor *Successor) *Loads {
	return &Loads{
		predecessor: predecessor, successor: successor,
		changed: nudge.New(), freed: nudge.New(),
	}
}

// Connect sets where loads are counted and places are given.
func (l *Loads) Connect(counter *inflight.Counter, pool *workers.Pool) {
	l.counter, l.pool = counter, pool
}

// Changed has the load sent, if there is a neighbour. It does not block.
func (l *Loads) Changed() {
	if l.successor.Serves() || l.predecessor.Running() != nil {
		l.changed.Touch()
	}
}

// Freed wakes the queue. It does not block.
func (l *Loads) Freed() { l.freed.Touch() }

// Wake gives places to requests that wait, when other processes have given some back,
// until ctx ends.
func (l *Loads) Wake(ctx context.Context) error {
	for {
		select {
		case <-l.freed:
			l.pool.Wake()
		case <-ctx.Done():
			return nil
		}
	}
}

// Send sends every change to the neighbours until ctx ends.
func (l *Loads) Send(ctx context.Context) error {
	for {
		select {
		case <-l.changed:
		case <-ctx.Done():
			return nil
		}
		if l.successor.Serves() {
			l.successor.SendTurns(l.turns(), l.counter.ForSuccessor())
		}
		if l.predecessor.Running() == nil {
			continue
		}
		if load, due := l.counter.ForPredecessor(); due {
			l.predecessor.SendLoad(load)
		}
	}
}

// turns returns the turns in flight on each worker, of this process and those before it.
func (l *Loads) turns() map[string]int {
	all := map[string]int{}
	for _, name := range l.pool.Names() {
		all[name] = 0
	}
	maps.Copy(all, l.predecessor.Turns()) // also on workers that this process does not have
	for name, load := range l.pool.Loads() {
		all[name] += load.Turns
	}
	return all
}
