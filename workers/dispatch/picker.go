package dispatch

import (
	"iter"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"codex-proxy/workers/accounts"
)

// Worker is a worker as the picker sees it.
type Worker interface {
	Name() string
	Paused() bool // by an operator
	// Load is how many turns are in flight, in all processes; Slots is how many there may be
	// now, and 0 while the worker is not ready.
	Load() int
	Slots() int
	// Vacancy is an error if the worker has no place for the request. Lease acquires the
	// place, with the consent of other processes.
	Vacancy(Ask) error
	Lease(Ask) (*Lease, error)
	// Phase is the worker for the plan of the accounts. Want has it started for a request; it
	// wakes no queue.
	Phase() accounts.Phase
	Want()
}

// Picker chooses the worker of a request.
type Picker struct {
	workers  []Worker
	holdTime holdTime
	rotation *rotation   // nil: the quota of accounts decides nothing
	draining atomic.Bool // Dispatcher.Drain was called
	// Now is the clock of the choice by quota.
	Now func() time.Time
}

// NewPicker creates the picker among the workers. Store has the state of their accounts.
func NewPicker(workers []Worker, store *accounts.Store) *Picker {
	return &Picker{workers: workers, rotation: newRotation(workers, store), Now: time.Now}
}

// Pick leases a ready worker with the model: the one that the accounts' quota makes the
// choice, or without a rotation the one that is preferred or has the fewest turns in
// flight. It does not respect the queue, whose lock the caller holds. The error is one of verdict.go.
func (p *Picker) Pick(a Ask) (*Lease, error) {
	if p.draining.Load() && !a.again() {
		return nil, ErrDraining
	}
	if p.rotation != nil {
		return p.choose(a)
	}
	verdict := ErrGivenUp
	for w := range p.byLoad(a.Prefer) {
		if !a.allows(w.Name()) {
			continue
		}
		if w.Paused() {
			verdict = nearer(verdict, ErrPaused)
			continue
		}
		lease, err := p.leaseOn(w, a)
		if err == nil {
			return lease, nil
		}
		verdict = nearer(verdict, err)
	}
	return nil, verdict
}

// leaseOn leases the worker, with the consent of other processes.
func (p *Picker) leaseOn(w Worker, a Ask) (*Lease, error) {
	lease, err := w.Lease(a)
	if err != nil {
		return nil, err
	}
	return p.timed(lease), nil
}

// timed makes the lease add to the pace how long it was held, unless its turn was
// lost.
func (p *Picker) timed(l *Lease) *Lease {
	began, release := time.Now(), l.release
	l.release = sync.OnceFunc(func() {
		if l.Conn.Err() == nil {
			p.holdTime.add(time.Since(began))
		}
		release()
	})
	return l
}

// byLoad yields the workers, the preferred one first and then by their turns in
// flight. Mostly the first one gets the turn, so nothing is sorted.
func (p *Picker) byLoad(prefer string) iter.Seq[Worker] {
	const tried = math.MaxInt
	return func(yield func(Worker) bool) {
		loads := make([]int, len(p.workers))
		for i, w := range p.workers {
			if loads[i] = w.Load(); w.Name() == prefer {
				loads[i] = -1
			}
		}
		for range p.workers {
			best := slices.Index(loads, slices.Min(loads))
			loads[best] = tried
			if !yield(p.workers[best]) {
				return
			}
		}
	}
}
