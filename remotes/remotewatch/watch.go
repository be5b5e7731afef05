// Package remotewatch follows the remotes of a machine for the daemon: the states of their units, and the
// reports of the main processes of the running ones. systemd alone starts, watches and restarts them.
package remotewatch

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"codex-proxy/probes"
	"codex-proxy/remotes"
	"codex-proxy/units"
	"codex-proxy/units/restarts"
)

// Settings configure a Watch.
type Settings struct {
	// Names returns the names of all remotes with a file.
	Names func() ([]string, error)
	// Ask asks the main process of a remote that runs.
	Ask    func(ctx context.Context, name string) (remotes.Status, error)
	Resets *restarts.Resets // called with each state
	// OnChange is called after every change of a reason, and after an answer of a main process that differs from the
	// one before.
	OnChange func()
	Logger   *slog.Logger
}

// Watch has the state of every remote. Its methods are safe for concurrent use.
type Watch struct {
	settings Settings

	mu     sync.Mutex // guards the rest
	states map[string]*state
	saved  Saved // of remotes that systemd has not reported yet
	absent bool  // the list of the remotes could not be read
	wake   chan struct{}

	watchers int // programs that show the people and turns of the remotes
}

// New returns a watch that knows no remote yet.
func New(settings Settings) *Watch {
	return &Watch{settings: settings, states: map[string]*state{}, saved: Saved{}, wake: make(chan struct{}, 1)}
}

// Units are the units of all remotes that have a file now. It forgets the other remotes.
func (w *Watch) Units() (all []string) {
	names, err := w.settings.Names()
	w.mu.Lock()
	defer w.mu.Unlock()
	absent := err != nil && len(names) == 0 // with too many, the first ones are there
	if absent {
		if !w.absent {
			w.settings.Logger.Warn("the remotes cannot be listed", "error", err)
		}
		names = slices.Sorted(maps.Keys(w.states))
	}
	w.absent = absent
	maps.DeleteFunc(w.states, func(name string, _ *state) bool { return !slices.Contains(names, name) })
	for _, name := range names {
		if w.states[name] == nil {
			w.states[name] = newState(name, w.saved[name])
		}
		all = append(all, units.Remote(name))
	}
	return all
}

// UnitChanged takes over the state of one unit, as systemd reports it. Units of others do not matter.
func (w *Watch) UnitChanged(u units.State) {
	if w.set(u, time.Now()) {
		w.touch()
		w.settings.OnChange()
	}
}

func (w *Watch) set(u units.State, now time.Time) (changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.states {
		if s.published.Unit == u.Unit {
			changed = s.set(u, now)
			w.settings.Resets.Observe(u, s.published.Ready)
		}
	}
	return changed
}

// Report returns the state of every remote that systemd has reported, in the order of their names.
func (w *Watch) Report() (all []probes.Remote) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for _, name := range slices.Sorted(maps.Keys(w.states)) {
		if s := w.states[name]; s.reported {
			s.count(now)
			all = append(all, s.published)
		}
	}
	return all
}
