package workers

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"
	"time"

	"codex-proxy/probes"
)

// The reasons why no worker could be picked.
var (
	ErrDraining = errors.New("the service is draining")
	ErrNotReady = errors.New("no worker is ready")
	ErrNoModel  = errors.New("no ready worker has this model")
	ErrBusy     = errors.New("every worker is at its in-flight limit")
	// ErrDecoding is ErrBusy of a request with images.
	ErrDecoding = fmt.Errorf("%w for images", ErrBusy)
)

var (
	// errGivenUp is ErrNotReady where no waiting helps: an operator has to act.
	errGivenUp = fmt.Errorf("%w, nor will be by itself", ErrNotReady)
	// errAway is ErrNotReady of a worker that has, or may have, the model and
	// is expected back.
	errAway = fmt.Errorf("%w that has this model", ErrNotReady)
)

// pick leases a ready worker with the model: the one that the accounts' quota makes the
// choice, or without a rotation the one that is preferred or has the fewest turns in
// flight. It does not respect the queue. The error is one of the sentinels above, or of
// exhausted.go.
func (d *dispatcher) pick(a Ask) (*Lease, error) {
	if d.draining.Load() && !a.again() {
		return nil, ErrDraining
	}
	if d.rotation != nil {
		return d.choose(a)
	}
	verdict := errGivenUp
	for w := range d.byLoad(a.Prefer) {
		if !a.allows(w.name) {
			continue
		}
		if w.paused.Load() {
			verdict = nearer(verdict, ErrPaused)
			continue
		}
		lease, err := d.leaseOn(w, a)
		if err == nil {
			return lease, nil
		}
		verdict = nearer(verdict, err)
	}
	return nil, verdict
}

// leaseOn leases the worker, with the consent of other processes.
func (d *dispatcher) leaseOn(w *Worker, a Ask) (*Lease, error) {
	lease, err := w.lease(a)
	if err == nil {
		err = w.claim(lease.slot)
	}
	if err != nil {
		return nil, err
	}
	return d.timed(lease), nil
}

// timed makes the lease add to the pace how long it was held, unless its turn was
// lost.
func (d *dispatcher) timed(l *Lease) *Lease {
	began, release := time.Now(), l.release
	l.release = sync.OnceFunc(func() {
		if l.Conn.Err() == nil {
			d.pace.add(time.Since(began))
		}
		release()
	})
	return l
}

// nearer is the error of the worker that was closer to being picked.
func nearer(a, b error) error {
	order := []error{errGivenUp, ErrNotReady, ErrNoModel, ErrPaused, ErrLogins, errExhausted, errAway, ErrBusy,
		ErrDecoding, errHeld}
	if slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
}

// byLoad yields the workers, the preferred one first and then by their turns in
// flight. Mostly the first one gets the turn, so nothing is sorted.
func (d *dispatcher) byLoad(prefer string) iter.Seq[*Worker] {
	const tried = math.MaxInt
	return func(yield func(*Worker) bool) {
		loads := make([]int, len(d.workers))
		for i, w := range d.workers {
			if loads[i] = w.load(); w.name == prefer {
				loads[i] = -1
			}
		}
		for range d.workers {
			best := slices.Index(loads, slices.Min(loads))
			loads[best] = tried
			if !yield(d.workers[best]) {
				return
			}
		}
	}
}

// load is how many turns are in flight, in all processes.
func (w *Worker) load() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state.total().Turns
}

// lease checks and acquires under one lock, so the limit holds.
func (w *Worker) lease(a Ask) (*Lease, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &w.state
	if err := s.vacancy(a, w.settings.MaxInflight); err != nil {
		return nil, err
	}
	s.acquire(a.Decoding)
	slot := &slot{worker: w, decoding: a.Decoding}
	return &Lease{
		Worker: w.name, Conn: s.conn, slot: slot, release: slot.release,
		annotator: &w.annotator, suspects: w.connector.suspects,
	}, nil
}

// vacancy is an error if the worker has no place for the request.
func (s *state) vacancy(a Ask, maxInflight int) error {
	switch {
	case s.reason() != probes.Ready, s.conn.Err() != nil: // a lost turn may know it before the session does
		return s.absence(a.Model)
	case !offers(s.offered, a.Model):
		return ErrNoModel
	case slices.Contains(a.Avoid, s.conn):
		return errAway
	}
	return s.full(a.Decoding, maxInflight)
}

// absence is the effect of a worker that is not ready on a request for the model. A
// worker that was never connected may have any model once it starts, also if
// systemd is just about to try again.
func (s *state) absence(model string) error {
	switch {
	case !probes.Recoverable(s.facts()):
		return errGivenUp
	case s.offered == nil, offers(s.offered, model):
		return errAway
	default:
		return ErrNotReady
	}
}
