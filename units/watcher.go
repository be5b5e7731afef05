package units

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config says what to watch and whom to tell. The callbacks run on the
// watcher's own goroutine, never two at a time: while one blocks nothing is
// published and Alive fails. A nil callback is not called.
type Config struct {
	Units  []string      // full unit names, such as Worker returns
	Resync time.Duration // how often one of the units is read anew, 30 s when zero
	Logger *slog.Logger  // discarded when nil
	// Registry is where its metrics go; nil: nobody looks at them.
	Registry prometheus.Registerer
	// Unmanaged says that systemd did not start us: that it is not heard is no fault.
	Unmanaged bool

	// OnState gets each change of a unit's state, in order, and nothing that
	// isn't a change, also across reconnects. A reader that can't follow loses
	// intermediate states of a unit, never the newest.
	OnState func(State)

	// OnBus says when the picture starts (true: every unit's state has been
	// published) and stops to be current (false, with the reason). What was
	// published last is then merely old. It is called when that changes.
	OnBus func(up bool, err error)
}

// Watcher follows the state of units over the system bus, for as long as Run
// runs, whatever becomes of the bus.
type Watcher struct {
	cfg   Config
	board *board
	pings chan struct{}

	bus busState // the loop's

	began time.Time    // where step counts from, so that a clock that is set does not change it
	step  atomic.Int64 // when the connector last made one, in nanoseconds since began
}

// stepBound is longer than the connector can take between two steps: three calls
// in a row that are answered late or never, and then the longest pause.
const stepBound = 3*callTimeout + slowRetry + callTimeout

// busState is what OnBus was last told.
type busState int

const (
	busUnknown busState = iota
	busUp
	busDown
	busAbsent
)

// busEvent is the connector's word to the loop.
type busEvent struct {
	state busState
	err   error
}

// NewWatcher returns a watcher that does nothing until Run.
func NewWatcher(cfg Config) *Watcher {
	if cfg.Resync == 0 {
		cfg.Resync = 30 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.OnState == nil {
		cfg.OnState = func(State) {}
	}
	if cfg.OnBus == nil {
		cfg.OnBus = func(bool, error) {}
	}
	return &Watcher{cfg: cfg, began: time.Now(), board: newBoard(cfg.Units, newMetrics(cfg.Registry, cfg.Unmanaged)), pings: make(chan struct{})}
}

// Run watches until ctx is cancelled, and then returns nil. It is to be called
// once. A bus that fails, or is missing, is not its failure: see OnBus.
func (w *Watcher) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.stepped()
	events := make(chan busEvent)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.connect(ctx, events)
	}()
	for {
		select {
		case <-done:
			return nil
		case <-w.pings:
		case <-w.board.news:
			w.publish()
		case e := <-events:
			w.publish()
			w.busChanged(e)
		}
	}
}

// Alive returns nil when the watcher's loop answers before ctx ends and its bus
// connection has lately come a step further. It says nothing of the bus: the
// loop of a watcher without a bus is alive, and waiting has an end.
func (w *Watcher) Alive(ctx context.Context) error {
	select {
	case w.pings <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("the unit watcher's loop does not answer: %w", ctx.Err())
	}
	if stuck := time.Since(w.began) - time.Duration(w.step.Load()); stuck > stepBound {
		return fmt.Errorf("the unit watcher's bus connection is stuck for %s", stuck.Round(time.Millisecond))
	}
	return nil
}

// stepped is called by the connector wherever one bounded wait has ended.
func (w *Watcher) stepped() { w.step.Store(int64(time.Since(w.began))) }

func (w *Watcher) publish() {
	for _, s := range w.board.take() {
		w.cfg.OnState(s)
	}
}

// busChanged tells of the bus when there is something new to tell.
func (w *Watcher) busChanged(e busEvent) {
	if e.state == w.bus {
		w.cfg.Logger.Debug("still no word from systemd", "error", e.err)
		return
	}
	w.bus = e.state
	w.board.metrics.up.Set(0)
	switch e.state {
	case busUp:
		w.board.metrics.up.Set(1)
		w.cfg.Logger.Debug("watching units over the system bus", "units", len(w.cfg.Units))
	case busAbsent:
		w.cfg.Logger.Warn("cannot watch units, still looking for a system bus", "error", e.err)
	default:
		w.cfg.Logger.Warn("cannot watch units, unit states may be old; trying again", "error", e.err)
	}
	w.cfg.OnBus(e.state == busUp, e.err)
}

// connect keeps one session after the other until ctx ends.
func (w *Watcher) connect(ctx context.Context, events chan<- busEvent) {
	var retry backoff
	wasUp := false // at any time
	for ctx.Err() == nil {
		w.stepped()
		err := w.session(ctx, func() {
			if wasUp {
				w.board.metrics.reconnects.Inc()
			}
			wasUp = true
			retry = backoff{wasUp: true}
			send(ctx, events, busEvent{state: busUp})
		})
		if err == nil {
			return
		}
		send(ctx, events, downEvent(err))
		retry.wait(ctx, err)
	}
}

func (w *Watcher) session(ctx context.Context, up func()) error {
	s, err := openSession(ctx, w.board, w.stepped)
	if err != nil {
		return err
	}
	defer s.bus.close()
	up()
	return s.run(ctx, w.cfg.Resync)
}

func downEvent(err error) busEvent {
	if errors.Is(err, ErrNoBus) {
		return busEvent{busAbsent, err}
	}
	return busEvent{busDown, err}
}

func send(ctx context.Context, events chan<- busEvent, e busEvent) {
	select {
	case events <- e:
	case <-ctx.Done():
	}
}
