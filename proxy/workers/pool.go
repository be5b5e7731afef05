package workers

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"codex-proxy/probes"
	"codex-proxy/units"
)

// Pool is a fixed set of workers. Its methods are safe for concurrent use.
type Pool struct {
	workers   []*Worker
	draining  atomic.Bool
	announced atomic.Bool
	onChange  func()
	queue     *queue
	pace      pace
}

// NewPool groups workers whose settings share the same OnChange.
func NewPool(workers []*Worker, waiting Queue, onChange func()) *Pool {
	p := &Pool{workers: workers, onChange: onChange}
	p.queue = newQueue(waiting, p.pick)
	for _, w := range workers {
		w.wake = p.queue.wake
	}
	return p
}

// Run runs every worker until ctx ends; then it returns nil.
func (p *Pool) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, w := range p.workers {
		g.Go(func() error { return w.Run(ctx) })
	}
	return g.Wait()
}

// Alive returns nil when the loops of every worker move. All are asked at
// once: one that is stuck must not use up the time of the others, or they would
// be blamed with it.
func (p *Pool) Alive(ctx context.Context) error {
	errs := make([]error, len(p.workers))
	var g sync.WaitGroup
	for i, w := range p.workers {
		g.Go(func() { errs[i] = w.Alive(ctx) })
	}
	g.Wait()
	return errors.Join(errs...)
}

// Reachable joins what keeps us from our workers by our own fault.
func (p *Pool) Reachable() error {
	var errs []error
	for _, w := range p.workers {
		errs = append(errs, w.Reachable())
	}
	return errors.Join(errs...)
}

// UnitChanged takes over systemd's word on one unit.
func (p *Pool) UnitChanged(u units.State) {
	for _, w := range p.workers {
		if w.unit == u.Unit {
			w.heardUnit(u)
		}
	}
}

// BusChanged takes over whether systemd's words are current. err is
// units.ErrNoBus where there is no bus at all; then connections alone decide.
func (p *Pool) BusChanged(up bool, err error) {
	b := busLost
	switch {
	case up:
		b = busCurrent
	case errors.Is(err, units.ErrNoBus):
		b = busNone
	}
	for _, w := range p.workers {
		w.heardBus(b)
	}
}

// Drain forbids new turns for good and turns away those that wait for their
// first place.
func (p *Pool) Drain() {
	p.draining.Store(true)
	p.queue.wake()
	p.onChange()
}

// AnnounceDrain makes every worker show as draining, but still allows turns.
func (p *Pool) AnnounceDrain() {
	p.announced.Store(true)
	p.onChange()
}

// Inflight is the number of turns in flight and of requests that wait for one:
// what a service that stops has still to do.
func (p *Pool) Inflight() int {
	p.queue.mu.Lock() // or a lost turn that goes from its worker to the queue meanwhile is in neither
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
	snap := probes.Snapshot{At: time.Now(), Draining: p.draining.Load() || p.announced.Load(), Workers: make([]probes.Worker, 0, len(p.workers))}
	snap.Queue = p.queueReport(snap.At)
	for _, w := range p.workers {
		snap.Workers = append(snap.Workers, w.snapshot(snap.Draining))
	}
	return snap
}

// Known reports whether a worker has the model, or had it when it was last ready;
// hidden models are known, too.
func (p *Pool) Known(model string) bool {
	return slices.ContainsFunc(p.workers, func(w *Worker) bool {
		s, _ := w.view()
		return offers(s.offered, model)
	})
}

// Models are the models of all ready workers, each once, in the workers' order.
func (p *Pool) Models() []string {
	var ids []string
	for _, w := range p.Snapshot().Workers {
		if !w.Ready {
			continue
		}
		for _, id := range w.Handshake.Models {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}
