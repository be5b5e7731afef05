// Package dependencies follows the units of the programs that the service and its workers
// require, and reports which of them are ready. systemd alone starts, watches and restarts
// them.
package dependencies

import (
	"slices"
	"strings"
	"sync"

	"codex-proxy/probes"
	"codex-proxy/units"
	"codex-proxy/units/restarts"
)

// Required is one dependency, and its dependents.
type Required struct {
	Name         string
	By           []string // units
	HoldsService bool     // the service is not ready without it
}

// Settings configure a Watch.
type Settings struct {
	Dependencies []Required       // sorted by name
	Resets       *restarts.Resets // called with each state
	// OnChange is called after every change of a dependency, and OnReason before it, once for
	// each change of a reason, in order; before has no reason at the first one. Both are called
	// on the goroutine of the caller of UnitChanged or BusChanged.
	OnChange func()
	OnReason func(before, after probes.Dependency)
}

// Watch has the state of every dependency. Its methods are safe for concurrent use.
type Watch struct {
	settings Settings

	mu     sync.Mutex // guards the rest
	states []*state   // in the order of the settings
	absent bool       // there is no bus, or it is away
}

// New returns a watch that knows nothing yet of the units.
func New(settings Settings) *Watch {
	w := &Watch{settings: settings}
	for _, r := range settings.Dependencies {
		w.states = append(w.states, newState(r))
	}
	return w
}

// UnitChanged takes over the state of one unit, as systemd reports it. Units of others do not
// matter.
func (w *Watch) UnitChanged(u units.State) {
	w.mu.Lock()
	i := slices.IndexFunc(w.states, func(s *state) bool { return s.published.Unit == u.Unit })
	if i < 0 {
		w.mu.Unlock()
		return
	}
	s := w.states[i]
	before := s.published
	if !s.reported {
		before.Reason = ""
	}
	s.set(u)
	after := s.published
	w.mu.Unlock()
	if after.Reason != before.Reason && w.settings.OnReason != nil {
		w.settings.OnReason(before, after)
	}
	w.settings.Resets.Observe(u, after.Ready)
	w.settings.OnChange()
}

// BusChanged takes over whether the states are current. While they are not, a dependency
// that was never reported counts as ready: connected workers stay ready then, too.
func (w *Watch) BusChanged(up bool) {
	w.mu.Lock()
	w.absent = !up
	w.mu.Unlock()
	w.settings.OnChange()
}

// Report returns the state of every dependency, in the order of their names. Anyone may read it: of a refused start it
// has no status text, also before systemd has seen its end, because the text has the command line of another process.
func (w *Watch) Report() []probes.Dependency {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.states) == 0 {
		return nil
	}
	all := make([]probes.Dependency, 0, len(w.states))
	for _, s := range w.states {
		d := s.published
		d.HoldsService = d.HoldsService && !w.unknown(s)
		notStarted := strings.HasPrefix(d.StatusText, "Not started: ")
		if d.Reason == probes.DependencyRefused || notStarted && d.Reason != probes.DependencyInvalid {
			d.StatusText = ""
		}
		all = append(all, d)
	}
	return all
}

// Unmet returns which of the named dependencies are not ready, in that order, and the reason
// of one of them: a final one, if there is one.
func (w *Watch) Unmet(names []string) (unmet []string, reason probes.DependencyReason) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		for _, s := range w.states {
			d := s.published
			if d.Name != name || d.Ready || w.unknown(s) {
				continue
			}
			unmet = append(unmet, name)
			if reason == "" || d.Reason.Final() && !reason.Final() {
				reason = d.Reason
			}
		}
	}
	return unmet, reason
}

// unknown reports whether nothing can be known of the dependency.
func (w *Watch) unknown(s *state) bool { return w.absent && !s.reported }
