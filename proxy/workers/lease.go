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
	"codex-proxy/proxy/appserver"
)

// Why no worker could be picked.
var (
	ErrDraining = errors.New("the service is draining")
	ErrNotReady = errors.New("no worker is ready")
	ErrNoModel  = errors.New("no ready worker has this model")
	ErrBusy     = errors.New("every worker is at its in-flight limit")
	// ErrDecoding is ErrBusy of a request with images.
	ErrDecoding = fmt.Errorf("%w for images", ErrBusy)
)

var (
	// errGivenUp is ErrNotReady where no waiting helps: a person has to act.
	errGivenUp = fmt.Errorf("%w, nor will be by itself", ErrNotReady)
	// errAway is ErrNotReady of a worker that has, or may have, the model and
	// is expected back.
	errAway = fmt.Errorf("%w that has this model", ErrNotReady)
)

// Lease is the right to run one turn on one worker. Release must be called.
type Lease struct {
	Worker string
	Conn   *appserver.Conn

	place     *place
	release   func()
	annotator *annotator
	suspects  chan<- *appserver.Conn
}

// Annotate lets the worker's lines in the journal that name the thread name the
// request, too, if something in front of codex sees to that. It does not wait
// for it.
func (l *Lease) Annotate(thread, request string) {
	if l.annotator != nil {
		l.annotator.tell(thread, request)
	}
}

// Release gives the place back, as soon as codex has nothing more to do for it, see
// Hold; further calls do nothing.
func (l *Lease) Release() { l.release() }

// Hold keeps the place taken while codex is at work for the lease, until let is called.
// A request may end sooner; no other request gets the place until then. let may be
// called from any goroutine, and does not wait.
func (l *Lease) Hold() (let func()) { return l.place.hold() }

// Decoded gives back the room for images, once codex has decoded those of the request.
func (l *Lease) Decoded() { l.place.decoded() }

// pick takes the ready worker with the model that is preferred or has the fewest
// turns in flight, past the queue. The error is one of the sentinels above.
func (p *Pool) pick(a Ask) (*Lease, error) {
	if p.draining.Load() && !a.again() {
		return nil, ErrDraining
	}
	verdict := errGivenUp
	for w := range p.byLoad(a.Prefer) {
		lease, err := w.lease(a)
		if err == nil {
			err = w.confirm(lease.place)
		}
		if err == nil {
			return p.timed(lease), nil
		}
		verdict = moreTelling(verdict, err)
	}
	return nil, verdict
}

// timed makes the lease tell how long it was held, unless its turn was lost.
func (p *Pool) timed(l *Lease) *Lease {
	began, release := time.Now(), l.release
	l.release = sync.OnceFunc(func() {
		if l.Conn.Err() == nil {
			p.pace.add(time.Since(began))
		}
		release()
	})
	return l
}

// moreTelling prefers what holds of a worker that came closer to being picked.
func moreTelling(a, b error) error {
	order := []error{errGivenUp, ErrNotReady, ErrNoModel, errAway, ErrBusy, ErrDecoding}
	if slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
}

// byLoad yields the workers, the preferred one first and then by their turns in
// flight. Mostly the first one takes the turn, so nothing is sorted.
func (p *Pool) byLoad(prefer string) iter.Seq[*Worker] {
	const tried = math.MaxInt
	return func(yield func(*Worker) bool) {
		loads := make([]int, len(p.workers))
		for i, w := range p.workers {
			if loads[i] = w.load(); w.name == prefer {
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

// load is how many turns are in flight, in all processes.
func (w *Worker) load() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state.total().Turns
}

// lease checks and takes under one lock, so the limit holds.
func (w *Worker) lease(a Ask) (*Lease, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &w.state
	switch {
	case s.reason() != probes.Ready, s.conn.Err() != nil: // whoever lost a turn may know it before Run does
		return nil, s.absence(a.Model)
	case !offers(s.offered, a.Model):
		return nil, ErrNoModel
	case slices.Contains(a.Avoid, s.conn):
		return nil, errAway
	}
	if err := w.room(a.Decoding); err != nil {
		return nil, err
	}
	s.take(a.Decoding)
	place := &place{worker: w, decoding: a.Decoding}
	return &Lease{
		Worker: w.name, Conn: s.conn, place: place, release: place.release, annotator: &w.annotator, suspects: w.suspects,
	}, nil
}

// absence says of a worker that is not ready what one who asks for the model
// may hope for. A worker that has never been connected may have any model once
// it starts, also if systemd is just about to try again.
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
