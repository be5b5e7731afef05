package remotewatch

import (
	"time"

	"codex-proxy/probes"
)

// Saved is the state of each remote, by its name, that a reload passes on.
type Saved map[string]SavedRemote

// SavedRemote is the part of one remote. Its own counts are in its turn journal; but a remote that sleeps does not
// report them.
type SavedRemote struct {
	Restarts uint64            `json:"restarts,omitempty"`
	NotReady time.Duration     `json:"not_ready,omitempty"`
	LastExit *probes.Exit      `json:"last_exit,omitempty"`
	Use      *probes.RemoteUse `json:"use,omitempty"`
}

// Save returns the state for Restore of the next process.
func (w *Watch) Save() Saved {
	saved := Saved{}
	for _, r := range w.Report() {
		saved[r.Name] = SavedRemote{r.RestartsTotal, r.NotReady, r.LastExit, r.Use}
	}
	return saved
}

// Restore takes over the state of another process. Both have counted since this one began, so the larger numbers
// hold.
func (w *Watch) Restore(saved Saved) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.saved = saved
	for name, s := range w.states {
		before, r := saved[name], &s.published
		s.restarts.Total = max(s.restarts.Total, before.Restarts)
		r.RestartsTotal, r.NotReady = s.restarts.Total, max(r.NotReady, before.NotReady)
		if r.LastExit == nil {
			r.LastExit = before.LastExit
		}
		if r.Use == nil {
			r.Use = before.Use
			if !r.Ready {
				r.Use = before.Use.AtRest()
			}
		}
	}
}
