// Package workers holds the state of every codex worker. A Worker joins two
// sources: its socket (connection, handshake, turns in flight) and systemd (unit
// state, last result). A Pool has the slots of the workers given to requests
// (package dispatch) and their accounts read (package readings), and takes the
// snapshot that probes, metrics and admission read.
//
// The package starts, stops and restarts no process: systemd does.
package workers

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"codex-proxy/probes"
	"codex-proxy/units"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/dispatch"
	"codex-proxy/workers/readings"
)

// Pool is a fixed set of workers. Its methods are safe for concurrent use.
type Pool struct {
	roster
	*dispatch.Dispatcher
	picker       *dispatch.Picker
	onChange     func()
	announced    atomic.Bool // AnnounceDrain was called
	accountStore *accounts.Store
	readings     prometheus.Collector
}

// NewPool groups workers. Their settings share the same OnChange.
func NewPool(workers []*Worker, waiting dispatch.Queue, onChange func()) *Pool {
	p := &Pool{roster: workers, onChange: onChange}
	p.accountStore = p.storeOf()
	var all []dispatch.Worker
	for _, w := range workers {
		all = append(all, w)
	}
	p.picker = dispatch.NewPicker(all, p.accountStore)
	p.Dispatcher = dispatch.New(waiting, p.picker, onChange)
	quotas := readings.NewQuotas(p.accountStore)
	p.readings = quotas.Readings()
	for _, w := range workers {
		w.wake, w.reader = p.Wake, readings.NewReader(w.name, quotas, w.logger)
	}
	introduce(p.roster)
	p.markPaused()
	return p
}

func (p *Pool) storeOf() *accounts.Store {
	for _, w := range p.roster {
		if w.settings.AccountStore != nil {
			return w.settings.AccountStore
		}
	}
	return accounts.NewStore(accounts.Policy{Rotation: accounts.Off}, p.Names(), p.AccountsChanged)
}

// Run runs every worker until ctx ends; then it returns nil.
func (p *Pool) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, w := range p.roster {
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
	errs := make([]error, len(p.roster))
	var g sync.WaitGroup
	for i, w := range p.roster {
		g.Go(func() { errs[i] = w.connector.alive(ctx) })
	}
	g.Wait()
	return errors.Join(errs...)
}

// Reachable joins the faults of this process that keep it from its workers.
func (p *Pool) Reachable() error {
	var errs []error
	for _, w := range p.roster {
		errs = append(errs, w.reachable())
	}
	return errors.Join(errs...)
}

// UnitChanged takes over the state of one unit, as systemd reports it.
func (p *Pool) UnitChanged(u units.State) {
	for _, w := range p.roster {
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
	for _, w := range p.roster {
		w.update(func(s *state) { s.setBus(b) })
	}
}

// AnnounceDrain shows every worker as draining, but still allows turns.
func (p *Pool) AnnounceDrain() {
	p.announced.Store(true)
	p.onChange()
}

// Inflight is the number of turns in flight and of requests that wait for a slot:
// the work that a service finishes before it stops.
func (p *Pool) Inflight() int {
	return p.Dispatcher.Inflight(func() (n int) {
		for _, w := range p.roster {
			s, _ := w.view()
			n += s.inflight
		}
		return n
	})
}

// Snapshot is the state of all workers now.
func (p *Pool) Snapshot() probes.Snapshot {
	snap := probes.Snapshot{At: time.Now(), Draining: p.Draining() || p.announced.Load()}
	snap.Workers = make([]probes.Worker, 0, len(p.roster))
	for _, w := range p.roster {
		published := w.snapshot(snap.Draining)
		if w.paused.Load() {
			published.Out = probes.Draining
		}
		snap.Workers = append(snap.Workers, published)
	}
	p.Report(&snap)
	return snap
}
