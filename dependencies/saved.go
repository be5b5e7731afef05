package dependencies

import "codex-proxy/probes"

// Saved is the state of each dependency, by its name, that a reload passes on: systemd does not
// report to a new process.
type Saved map[string]SavedDependency

// SavedDependency is the part of one dependency.
type SavedDependency struct {
	Restarts uint64       `json:"restarts"`
	LastExit *probes.Exit `json:"last_exit,omitempty"`
}

// Save returns the state for Restore of the next process.
func (w *Watch) Save() Saved {
	w.mu.Lock()
	defer w.mu.Unlock()
	saved := Saved{}
	for _, s := range w.states {
		saved[s.published.Name] = SavedDependency{s.restarts.Total, s.published.LastExit}
	}
	return saved
}

// Restore takes over the state of another process. Both processes have counted the
// restarts since this one began, so the larger number holds.
func (w *Watch) Restore(saved Saved) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.states {
		before := saved[s.published.Name]
		s.restarts.Total = max(s.restarts.Total, before.Restarts)
		s.published.RestartsTotal = s.restarts.Total
		if s.published.LastExit == nil {
			s.published.LastExit = before.LastExit
		}
	}
}
