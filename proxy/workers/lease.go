package workers

import (
	"errors"
	"slices"
	"sync"

	"codex-proxy/probes"
	"codex-proxy/proxy/appserver"
)

// Why no worker could be picked.
var (
	ErrDraining = errors.New("the service is draining")
	ErrNotReady = errors.New("no worker is ready")
	ErrNoModel  = errors.New("no ready worker has this model")
	ErrBusy     = errors.New("every worker is at its in-flight limit")
)

// Lease is the right to run one turn on one worker. Release must be called.
type Lease struct {
	Worker string
	Conn   *appserver.Conn

	release func()
}

// Release gives the place back; further calls do nothing.
func (l *Lease) Release() { l.release() }

// Pick takes the ready worker with the model and the fewest turns in flight.
// The error is one of the sentinels above.
func (p *Pool) Pick(model string) (*Lease, error) {
	if p.draining.Load() {
		return nil, ErrDraining
	}
	verdict := ErrNotReady
	for _, w := range p.byLoad() {
		lease, err := w.lease(model)
		if err == nil {
			return lease, nil
		}
		verdict = moreTelling(verdict, err)
	}
	return nil, verdict
}

// moreTelling prefers what holds of a worker that came closer to being picked.
func moreTelling(a, b error) error {
	order := []error{ErrNotReady, ErrNoModel, ErrBusy}
	if slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
}

func (p *Pool) byLoad() []*Worker {
	load := make(map[*Worker]int, len(p.workers))
	for _, w := range p.workers {
		s, _ := w.view()
		load[w] = s.inflight
	}
	sorted := slices.Clone(p.workers)
	slices.SortStableFunc(sorted, func(a, b *Worker) int { return load[a] - load[b] })
	return sorted
}

// lease checks and takes under one lock, so the limit holds.
func (w *Worker) lease(model string) (*Lease, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &w.state
	switch {
	case probes.Judge(s.facts()) != probes.Ready:
		return nil, ErrNotReady
	case !s.has(model):
		return nil, ErrNoModel
	case s.inflight >= w.settings.MaxInflight:
		return nil, ErrBusy
	}
	s.inflight++
	return &Lease{Worker: w.name, Conn: s.conn, release: sync.OnceFunc(w.released)}, nil
}

func (w *Worker) released() {
	w.update(func(s *state) { s.inflight-- })
}
