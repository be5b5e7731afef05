package workers

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"codex-proxy/probes"
	"codex-proxy/units"
	"codex-proxy/workers/accounts"
)

// Pool is a fixed set of workers. Its methods are safe for concurrent use.
type Pool struct {
	roster
	dispatcher
	announced atomic.Bool // AnnounceDrain was called
	book      *accounts.Book
	readings  *readings
}

// NewPool groups workers. Their settings share the same OnChange.
func NewPool(workers []*Worker, waiting Queue, onChange func()) *Pool {
	p := &Pool{roster: workers, dispatcher: dispatcher{workers: workers, onChange: onChange}}
	p.queue = newQueue(waiting, p.pick)
	p.book = p.bookOf()
	p.rotation = newRotation(workers, p.book)
	p.readings = newReadings(p.book)
	for _, w := range workers {
		w.wake, w.book, w.readings = p.queue.wake, p.book, p.readings
	}
	p.markPaused()
	return p
}

func (p *Pool) bookOf() *accounts.Book {
	for _, w := range p.workers {
		if w.settings.Book != nil {
			return w.settings.Book
		}
	}
	return accounts.NewBook(accounts.Policy{Rotation: accounts.Off}, p.Names(), p.AccountsChanged)
}

// Run runs every worker until ctx ends; then it returns nil.
func (p *Pool) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, w := range p.workers {
		g.Go(func() error {
			w.connector.run(ctx)
			return nil
		})
	}
	return g.Wait()
}

// Alive returns nil when the loops of every worker answer before ctx ends. It
// asks all of them at once, so that a loop that is stuck does not use up the time
// of the others.
func (p *Pool) Alive(ctx context.Context) error {
	errs := make([]error, len(p.workers))
	var g sync.WaitGroup
	for i, w := range p.workers {
		g.Go(func() { errs[i] = w.connector.alive(ctx) })
	}
	g.Wait()
	return errors.Join(errs...)
}

// Reachable joins the faults of this process that keep it from its workers.
func (p *Pool) Reachable() error {
	var errs []error
	for _, w := range p.workers {
		errs = append(errs, w.reachable())
	}
	return errors.Join(errs...)
}

// UnitChanged takes over the state of one unit, as systemd reports it.
func (p *Pool) UnitChanged(u units.State) {
	for _, w := range p.workers {
		if w.unit == u.Unit {
			w.setUnit(u)
		}
	}
}

// BusChanged takes over whether the unit states are current. If err is
// units.ErrNoBus, there is no bus at all, and the connections alone decide.
func (p *Pool) BusChanged(up bool, err error) {
	b := busLost
	switch {
	case up:
		b = busCurrent
	case errors.Is(err, units.ErrNoBus):
		b = busNone
	}
	for _, w := range p.workers {
		w.update(func(s *state) { s.setBus(b) })
	}
}

// Drain forbids new turns for good and refuses the requests that wait for their
// first slot.
func (p *Pool) Drain() {
	p.draining.Store(true)
	p.queue.wake()
	p.onChange()
}

// AnnounceDrain shows every worker as draining, but still allows turns.
func (p *Pool) AnnounceDrain() {
	p.announced.Store(true)
	p.onChange()
}

// Inflight is the number of turns in flight and of requests that wait for a slot:
// the work that a service finishes before it stops.
func (p *Pool) Inflight() int {
	// A lost turn moves from its worker to the queue; the lock keeps it from being
	// in neither of them meanwhile.
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	n := p.queue.depth()
	for _, w := range p.workers {
		s, _ := w.view()
		n += s.inflight
	}
	return n
}

// Snapshot is the state of all workers now.
func (p *Pool) Snapshot() probes.Snapshot {
	snap := probes.Snapshot{At: time.Now(), Draining: p.draining.Load() || p.announced.Load()}
	snap.Queue = p.queue.report(snap.At)
	snap.Workers = make([]probes.Worker, 0, len(p.workers))
	for _, w := range p.workers {
		published := w.snapshot(snap.Draining)
		if w.paused.Load() {
			published.Out = probes.Draining
		}
		snap.Workers = append(snap.Workers, published)
	}
	p.rotation.report(&snap)
	return snap
}
