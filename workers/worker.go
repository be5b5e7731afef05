package workers

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"codex-proxy/codex/appserver"
	"codex-proxy/probes"
	"codex-proxy/units"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/annotations"
	"codex-proxy/workers/readings"
)

// Worker is one codex worker. Its methods are safe for concurrent use.
type Worker struct {
	name, unit, socket string
	host               string // the worker that runs the turns; mostly itself
	settings           Settings
	logger             *slog.Logger
	wake               func()    // serves the queue of the pool: a slot may have become free
	beside             []*Worker // the other accounts of its codex

	mu      sync.Mutex
	state   state
	changed chan struct{} // closed and replaced by every change

	paused    atomic.Bool // by an operator; see Pool.markPaused
	reader    *readings.Reader
	annotator annotations.Writer
	connector connector
}

// New describes the worker name, reached over the unix socket at path socket.
func New(name, socket string, settings Settings) *Worker { return Served(name, name, socket, settings) }

// Served describes an account with its turns in the codex of the worker host, reached over the socket of that worker.
func Served(name, host, socket string, settings Settings) *Worker {
	unit := units.Worker(host)
	w := &Worker{
		name: name, unit: unit, socket: socket, host: host, settings: settings,
		logger: settings.Logger.With("worker", name, "unit", unit),
		wake:   func() {}, changed: make(chan struct{}),
		annotator: annotations.Writer{Bound: annotateBound},
	}
	w.connector = newConnector(w)
	return w
}

// Name is the name of the worker.
func (w *Worker) Name() string { return w.name }

// Paused reports whether an operator has paused the worker's account.
func (w *Worker) Paused() bool { return w.paused.Load() }

// update changes the state and calls OnChange.
func (w *Worker) update(change func(*state)) {
	w.change(change)
	w.settings.OnChange()
}

// change is the only writer of the state but for slots. It logs under the lock, so
// that the log lines have the order of the changes.
func (w *Worker) change(change func(*state)) {
	w.mu.Lock()
	change(&w.state)
	if w.state.transitions.add(w.state.reason(), time.Now()) {
		w.state.logReason(w.logger)
	}
	w.state.logOutage(w.unit, w.logger)
	close(w.changed)
	w.changed = make(chan struct{})
	w.mu.Unlock()
	w.wake()
}

// view returns a copy of the state and a channel that is closed when it changes.
func (w *Worker) view() (state, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state, w.changed
}

// setUnit takes over the unit state that systemd reports.
func (w *Worker) setUnit(u units.State) {
	before, _ := w.view()
	w.update(func(s *state) { s.setUnit(u, time.Now()) })
	if before.unit.ActiveState != u.ActiveState || before.unit.SubState != u.SubState {
		w.logger.Debug("unit state changed", "active_state", u.ActiveState, "sub_state", u.SubState,
			"result", u.Result, "n_restarts", u.NRestarts)
	}
}

// snapshot is the worker's published state at this instant. draining: the whole
// service drains.
func (w *Worker) snapshot(draining bool) probes.Worker {
	s, _ := w.view()
	facts := s.facts()
	facts.Draining = facts.Draining || draining
	reason := probes.Judge(facts)
	return probes.Worker{
		Name: w.name, Unit: w.unit,
		ActiveState: s.unit.ActiveState, SubState: s.unit.SubState, MainPID: s.unit.MainPID,
		InvocationID: s.unit.InvocationID, StatusText: s.unit.StatusText,
		Ready: reason == probes.Ready, Reason: reason, Handshake: s.handshake,
		RestartsTotal: s.restarts.Total, OOMKillsTotal: s.oomKills, ConsecutiveFailures: s.failures,
		Transitions: slices.Clone(s.transitions), LastExit: s.exit,
		NextRestartAt: timeOrNil(s.unit.NextRestartAt), LastReadyAt: timeOrNil(s.lastReadyAt),
		StartupLatencyMS: float64(s.latency.Microseconds()) / 1000, Inflight: s.turns(),
		Drained: s.drains.operator, Fault: s.wedged(), Unmet: s.unmet.Names,
	}
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Settings are common to all workers of a pool. All durations must be positive.
type Settings struct {
	// MaxInflight bounds the turns in flight on one worker, of all accounts that it serves.
	MaxInflight int
	// HandshakeTimeout bounds dialling, initialize and model/list together.
	HandshakeTimeout time.Duration
	// ResetAfter is how long a worker must stay ready before its failures are
	// forgotten and systemd's restart delay is reset.
	ResetAfter time.Duration
	// Client introduces the proxy to the worker.
	Client appserver.Options
	// Runs reports whether the unit of the named worker runs, for a time when
	// systemd does not answer. Nil: it is unknown, and no worker is dialled then.
	Runs func(name string) bool
	// LoginSocket returns the socket of the unit that keeps the login of the named worker; empty: the worker keeps it.
	// Nil: all do.
	LoginSocket func(name string) string
	// Serving returns the accounts that the running codex of the named worker serves, if it serves several. Nil: none
	// does.
	Serving func(worker string) []string
	// ResetFailed is ResetFailedUnit of org.freedesktop.systemd1.Manager; nil
	// where there is no systemd.
	ResetFailed func(ctx context.Context, unit string) error
	// Store has the known state of the accounts of all workers of the pool, which calls
	// Pool.AccountsChanged on each change. Nil: the pool makes one with rotation off.
	AccountStore *accounts.Store
	// OnChange is called after every change of any worker, from any goroutine.
	OnChange func()
	// OnTurnEnd replaces OnChange when only a turn has ended on a ready worker.
	// Nil: OnChange is called.
	OnTurnEnd func()
	// Claim is called after a slot was acquired and before it is used. If other
	// processes have to know of the slot, Claim waits for them, calls
	// Pool.SetPeerLoads meanwhile, and returns true. It must not call Pool.Wake
	// before it has returned. Nil: there are no other processes.
	Claim  func() bool
	Logger *slog.Logger
}

// loginSocket is the result of Settings.LoginSocket.
func loginSocket(w *Worker) string {
	if w.settings.LoginSocket == nil {
		return ""
	}
	return w.settings.LoginSocket(w.name)
}
