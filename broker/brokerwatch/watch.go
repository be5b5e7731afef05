// Package brokerwatch follows the brokers of the workers for the daemon: the states of their units, and the states that
// they write. systemd alone starts, watches and restarts them.
package brokerwatch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"codex-proxy/broker/brokerstate"
	"codex-proxy/broker/brokerunit"
	"codex-proxy/internal/nudge"
	"codex-proxy/probes"
	"codex-proxy/units"
)

// period is how often the states of brokers are read. A change of the unit's status has its broker's state read at
// once.
const period = 10 * time.Second

// publication is the longest time in which a broker publishes the limits of an answer.
const publication = 1200 * time.Millisecond

// Settings configure a Watch.
type Settings struct {
	Workers []string // of the configuration
	// Generated is the directory of generated units, and States has a directory for each broker.
	Generated, States string
	// OnChange is called after every change of a unit.
	OnChange func()
	// OnLimits is called for each account with limits that its worker's broker reports anew.
	OnLimits func(worker, account string, limits json.RawMessage)
	// OnHidden is called for each hidden use that the broker of a worker reports anew.
	OnHidden func(worker, account string, threads []string, used brokerstate.Tokens)
	Logger   *slog.Logger
}

// Watch has the state of every broker. Its methods are safe for concurrent use.
type Watch struct {
	settings Settings
	wake     nudge.Nudge
	ended    nudge.Nudge // a turn has ended
	began    time.Time

	mu     sync.Mutex // guards the rest
	states map[string]*state
}

// state is the known state of the broker of one worker.
type state struct {
	unit units.State
	own  *brokerstate.State // nil: there is none
	mute bool               // it was logged that it cannot be read
	// The hidden uses of the process that began then are known, up to that number.
	began  time.Time
	hidden uint64
}

// New returns a watch that knows no broker yet.
func New(settings Settings) *Watch {
	return &Watch{settings: settings, wake: nudge.New(), ended: nudge.New(), began: time.Now(),
		states: map[string]*state{}}
}

// Units are the units of all brokers: those that systemd's units have now, and those that still run.
func (w *Watch) Units() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range w.settings.Workers {
		if brokerunit.Generated(w.settings.Generated, name) {
			if w.states[name] == nil {
				w.states[name] = &state{}
			}
		} else if s := w.states[name]; s != nil && stopped(s.unit) {
			delete(w.states, name)
		}
		if w.states[name] != nil {
			all = append(all, units.Broker(name))
		}
	}
	return all
}

func stopped(u units.State) bool { return u.ActiveState == "" || u.ActiveState == "inactive" }

// UnitChanged takes over the state of one unit, as systemd reports it. Other units do not matter.
func (w *Watch) UnitChanged(u units.State) {
	if w.set(u) {
		w.wake.Touch()
		w.settings.OnChange()
	}
}

func (w *Watch) set(u units.State) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, s := range w.states {
		if units.Broker(name) == u.Unit {
			s.unit = u
			return true
		}
	}
	return false
}

// Brokered reports whether a broker sends the requests of a worker now: its unit has not stopped.
func (w *Watch) Brokered(worker string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.states[worker]
	return s != nil && !stopped(s.unit)
}

// Run reads the states of brokers until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		if w.read() {
			w.settings.OnChange()
		}
		var soon <-chan time.Time
		for again := false; !again; {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				again = true
			case <-w.wake:
				again = true
			case <-soon:
				again = true
			case <-w.ended:
				if soon == nil {
					soon = time.After(publication)
				}
			}
		}
	}
}

// TurnEnded is for the end of a turn: its broker may have new limits of the account. It does not block.
func (w *Watch) TurnEnded() { w.ended.Touch() }

// read reads the states of the brokers that run. It reports whether a failure has begun or ended.
func (w *Watch) read() (changed bool) {
	w.mu.Lock()
	var news []func()
	for name, s := range w.states {
		old := s.own
		w.readState(name, s)
		before, now := failureOf(old), failureOf(s.own)
		changed = changed || before.Reason != now.Reason || before.Over != now.Over
		for account, limits := range w.newLimits(old, s.own) {
			news = append(news, func() { w.settings.OnLimits(name, account, limits) })
		}
		for _, h := range s.newHidden() {
			news = append(news, func() { w.settings.OnHidden(name, cmp.Or(h.Account, name), h.Threads, h.Tokens) })
		}
	}
	w.mu.Unlock()
	for _, report := range news {
		report()
	}
	return changed
}

// newHidden are the hidden uses that were not known yet.
func (s *state) newHidden() (fresh []brokerstate.Hidden) {
	if s.own == nil {
		return nil
	}
	if !s.own.Began.Equal(s.began) {
		s.began, s.hidden = s.own.Began, 0
	}
	for _, h := range s.own.Hidden {
		if h.Number > s.hidden {
			s.hidden = h.Number
			fresh = append(fresh, h)
		}
	}
	return fresh
}

// newLimits are the limits that the old state has not. Older ones than this process may be known better by a reading.
func (w *Watch) newLimits(old, now *brokerstate.State) map[string]json.RawMessage {
	if old == nil {
		old = &brokerstate.State{}
	}
	if now == nil {
		return nil
	}
	fresh := map[string]json.RawMessage{}
	for account, l := range now.Limits {
		if l.At.After(w.began) && !l.At.Equal(old.Limits[account].At) {
			fresh[account] = l.Limits
		}
	}
	return fresh
}

func failureOf(s *brokerstate.State) brokerstate.Failure {
	if s == nil || s.Line.Failure == nil {
		return brokerstate.Failure{}
	}
	return *s.Line.Failure
}

// readState leaves a broker without a state if it has just started, or has stopped.
func (w *Watch) readState(name string, s *state) {
	own, err := brokerstate.Read(filepath.Join(w.settings.States, name))
	if s.own = own; err == nil || errors.Is(err, fs.ErrNotExist) {
		s.mute = false
		return
	}
	if !s.mute {
		s.mute = true
		w.settings.Logger.Warn("cannot read the state of a broker", "worker", name, "error", err)
	}
}

// Report returns the state of every broker that systemd has reported, in the order of the configuration.
func (w *Watch) Report() (all []probes.Broker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range w.settings.Workers {
		if s := w.states[name]; s != nil && s.unit.ActiveState != "" {
			all = append(all, s.published(name))
		}
	}
	return all
}

func (s *state) published(name string) probes.Broker {
	b := probes.Broker{Name: name, Unit: s.unit.Unit, ActiveState: s.unit.ActiveState, SubState: s.unit.SubState,
		StatusText: s.unit.StatusText}
	if s.own == nil {
		return b
	}
	b.Endpoint, b.Connections, b.Streams = s.own.Endpoint, s.own.Line.Connections, s.own.Streams
	for _, n := range s.own.Requests {
		b.Requests += n
	}
	if f := s.own.Line.Failure; f != nil {
		b.Failure = &probes.BrokerFailure{Reason: f.Reason, At: f.At, Over: f.Over}
	}
	return b
}
