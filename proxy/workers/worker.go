package workers

import (
	"slices"
	"sync"
	"time"

	"codex-proxy/probes"
	"codex-proxy/proxy/appserver"
	"codex-proxy/units"
)

// Worker is one codex worker. Its methods are safe for concurrent use.
type Worker struct {
	name, unit, socket string
	settings           Settings
	wake               func() // the queue of the pool: a place may have become free

	mu      sync.Mutex
	state   state
	changed chan struct{} // closed and replaced by every update

	account account

	alive chan struct{} // a receive by Run proves that it is not stuck

	annotator annotator
	suspects  chan *appserver.Conn // of capacity 1: on which a turn had no message for too long
}

// New describes the worker name, reached over the unix socket at path socket.
func New(name, socket string, settings Settings) *Worker {
	return &Worker{
		name: name, unit: units.Worker(name), socket: socket, settings: settings,
		wake: func() {}, changed: make(chan struct{}), alive: make(chan struct{}),
		suspects: make(chan *appserver.Conn, 1),
	}
}

// update changes the state and tells.
func (w *Worker) update(change func(*state)) {
	w.change(change)
	w.settings.OnChange()
}

// change is the one door to the state for writers. What it logs is in the order
// of the changes, because it is logged under the lock.
func (w *Worker) change(change func(*state)) {
	w.mu.Lock()
	change(&w.state)
	if w.state.follow(time.Now()) {
		w.logReason(&w.state)
	}
	w.logOutage(&w.state)
	close(w.changed)
	w.changed = make(chan struct{})
	w.mu.Unlock()
	w.wake()
}

// logReason tells of an outage in two lines: that systemd waits to restart the
// worker and why, and when it is ready again the whole chain of reasons.
func (w *Worker) logReason(s *state) {
	log := w.settings.Logger.With("worker", w.name, "unit", w.unit)
	switch reason := s.reason(); reason {
	case probes.Ready:
		log.Info("worker ready", "chain", s.chain(), "latency_ms", s.latency.Milliseconds(), "models", len(s.handshake.Models))
	case probes.BackingOff:
		log.Info("worker is down", "reason", string(reason), "last_exit", s.exit.String(), "n_restarts", s.unit.NRestarts)
	}
}

// view returns a copy of the state and a channel that is closed when it changes.
func (w *Worker) view() (state, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state, w.changed
}

// heardUnit takes over systemd's word on the unit.
func (w *Worker) heardUnit(u units.State) {
	before, _ := w.view()
	w.update(func(s *state) { s.heard(u, time.Now()) })
	if before.unit.ActiveState != u.ActiveState || before.unit.SubState != u.SubState {
		w.settings.Logger.Debug("unit state changed", "worker", w.name, "unit", w.unit,
			"active_state", u.ActiveState, "sub_state", u.SubState, "result", u.Result, "n_restarts", u.NRestarts)
	}
}

// heardBus takes over how far the last unit state can be believed.
func (w *Worker) heardBus(b bus) { w.update(func(s *state) { s.heardBus(b) }) }

// snapshot is the worker's published state at this instant. draining tells
// that the whole service drains.
func (w *Worker) snapshot(draining bool) probes.Worker {
	s, _ := w.view()
	facts := s.facts()
	facts.Draining = facts.Draining || draining
	reason := probes.Judge(facts)
	snap := probes.Worker{
		Name: w.name, Unit: w.unit,
		ActiveState: s.unit.ActiveState, SubState: s.unit.SubState, MainPID: s.unit.MainPID,
		InvocationID: s.unit.InvocationID, StatusText: s.unit.StatusText,
		Ready: reason == probes.Ready, Reason: reason, Handshake: s.handshake,
		RestartsTotal: s.restarts, OOMKillsTotal: s.oomKills, ConsecutiveFailures: s.failures,
		Transitions: slices.Clone(s.transitions), LastExit: s.exit,
		NextRestartAt: timeOrNil(s.unit.NextRestartAt), LastReadyAt: timeOrNil(s.lastReadyAt),
		StartupLatencyMS: float64(s.latency.Microseconds()) / 1000, Inflight: s.turns(),
		Drained: s.drains.operator, Fault: s.wedged(),
	}
	return snap
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
