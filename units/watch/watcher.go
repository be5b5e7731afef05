// Package watch follows the states of units, over the system bus.
//
// A signal may be lost: the package reads all properties again after every reconnect, after a daemon-reload, and from
// time to time.
package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/units"
	"codex-proxy/units/bus"
)

// Config configures a Watcher. The callbacks run on the watcher's own goroutine,
// never two at a time: while one blocks the watcher publishes nothing and Alive
// fails. A nil callback is not called.
type Config struct {
	Units []string // full unit names, such as units.Worker returns
	// Others returns the names of further units, which may change. It is asked at each connection, and after each
	// reload of systemd, with which new units begin.
	Others func() []string
	Resync time.Duration // how often one of the units is read anew, 30 s when zero
	Logger *slog.Logger  // discarded when nil
	// Registry receives the metrics; nil: they are not registered.
	Registry prometheus.Registerer
	// Unmanaged: systemd did not start us, so a missing systemd is no fault.
	Unmanaged bool

	// OnState receives each change of a unit's state, in order, and nothing that
	// isn't a change, also across reconnects. A slow reader misses intermediate
	// states of a unit, never the newest.
	OnState func(units.State)

	// OnBus is called when the published states become current (true: every unit's
	// state has been published) and when they may be old (false, with the reason).
	OnBus func(up bool, err error)
}

// Watcher follows the states of units over the system bus until Run returns. It
// survives every failure of the bus.
type Watcher struct {
	cfg   Config
	board *board
	pings chan struct{}

	state busState // belongs to the loop

	began time.Time    // the origin of step, with a monotonic clock that no clock change affects
	step  atomic.Int64 // the connector's last step, in nanoseconds since began
}

// stepBound is longer than the connector can take between two steps: three
// consecutive calls answered late or never, and then the longest pause.
const stepBound = 3*bus.CallTimeout + slowRetry + bus.CallTimeout

// busState is the state of the bus that OnBus last received.
type busState int

const (
	busUnknown busState = iota
	busUp
	busDown
	busAbsent
)

// busEvent is a message of the connector to the loop.
type busEvent struct {
	state busState
	err   error
}

// New returns a watcher that does nothing until Run.
func New(cfg Config) *Watcher {
	if cfg.Resync == 0 {
		cfg.Resync = 30 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Others == nil {
		cfg.Others = func() []string { return nil }
	}
	if cfg.OnState == nil {
		cfg.OnState = func(units.State) {}
	}
	if cfg.OnBus == nil {
		cfg.OnBus = func(bool, error) {}
	}
	board := newBoard(cfg.Units, newMetrics(cfg.Registry, cfg.Unmanaged))
	return &Watcher{cfg: cfg, began: time.Now(), board: board, pings: make(chan struct{})}
}

// Run watches until ctx is cancelled, and then returns nil. It is to be called
// once. A bus that fails or is missing is no error: see OnBus.
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
		case <-w.board.ready:
			w.publish()
		case e := <-events:
			w.publish()
			w.busChanged(e)
		}
	}
}

// Alive returns nil if the watcher's loop answers before ctx ends and its connector
// has recently made a step. The state of the bus does not matter: a watcher without
// a bus is alive, because its waits are bounded.
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

// stepped is called by the connector after each bounded wait.
func (w *Watcher) stepped() { w.step.Store(int64(time.Since(w.began))) }

func (w *Watcher) publish() {
	for _, s := range w.board.take() {
		w.cfg.OnState(s)
	}
}

// busChanged reports a change of the bus by log, metric and OnBus.
func (w *Watcher) busChanged(e busEvent) {
	if e.state == w.state {
		w.cfg.Logger.Debug("still no word from systemd", "error", e.err)
		return
	}
	w.state = e.state
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

// connect runs one session after the other until ctx ends.
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
	s, err := openSession(ctx, w.board, w.cfg.Others, w.stepped)
	if err != nil {
		return err
	}
	defer s.bus.Close()
	up()
	return s.run(ctx, w.cfg.Resync)
}

func downEvent(err error) busEvent {
	if errors.Is(err, bus.ErrNoBus) {
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
