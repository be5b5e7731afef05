package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrUnknown is a name that no worker of the pool has.
var ErrUnknown = errors.New("no such worker")

// drains say why a worker takes no new turns although it could. They are part
// of state. An operator's drain holds until it is taken back, across restarts
// of the worker; that of a stop holds for the invocation that is being stopped
// and so ends by itself when systemd starts the worker again.
type drains struct {
	operator bool
	stopped  string // InvocationID of the invocation that its ExecStop= has drained
}

// draining reports whether either drain holds now.
func (s *state) draining() bool {
	return s.drains.operator || s.drains.stopped != "" && s.drains.stopped == s.unit.InvocationID
}

// DrainWorker forbids new turns on one worker until UndrainWorker. Turns in
// flight go on. The error wraps ErrUnknown.
func (p *Pool) DrainWorker(name string) error {
	return p.setDrains(name, "worker drained", func(d *drains) { d.operator = true })
}

// UndrainWorker takes DrainWorker back, and that of a stop with it.
func (p *Pool) UndrainWorker(name string) error {
	return p.setDrains(name, "worker undrained", func(d *drains) { *d = drains{} })
}

// DrainForStop forbids new turns on one worker for as long as its unit is at
// the invocation, as systemd calls one run of a unit.
func (p *Pool) DrainForStop(name, invocation string) error {
	return p.setDrains(name, "worker drained for its stop", func(d *drains) { d.stopped = invocation })
}

func (p *Pool) setDrains(name, message string, change func(*drains)) error {
	w, err := p.worker(name)
	if err != nil {
		return err
	}
	inflight, changed := 0, false
	w.update(func(s *state) {
		before := s.drains
		change(&s.drains)
		inflight, changed = s.turns(), s.drains != before
	})
	if changed {
		w.settings.Logger.Info(message, "worker", w.name, "unit", w.unit, "inflight", inflight)
	}
	return nil
}

// Names are the names of all workers, in the pool's order.
func (p *Pool) Names() []string {
	names := make([]string, 0, len(p.workers))
	for _, w := range p.workers {
		names = append(names, w.name)
	}
	return names
}

// AwaitIdle returns nil when each of the named workers has been seen without a
// turn in flight, or ctx's error. It is meant for workers that are drained: the
// others may take turns again meanwhile.
func (p *Pool) AwaitIdle(ctx context.Context, names ...string) error {
	for _, name := range names {
		w, err := p.worker(name)
		if err != nil {
			return err
		}
		if err := w.awaitIdle(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *Worker) awaitIdle(ctx context.Context) error {
	for {
		s, changed := w.view()
		if s.turns() == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("worker %s has turns in flight: %w", w.name, ctx.Err())
		}
	}
}

func (p *Pool) worker(name string) (*Worker, error) {
	i := slices.IndexFunc(p.workers, func(w *Worker) bool { return w.name == name })
	if i < 0 {
		return nil, fmt.Errorf("%w: %q; there are %s", ErrUnknown, name, strings.Join(p.Names(), ", "))
	}
	return p.workers[i], nil
}
