package workers

import (
	"time"

	"codex-proxy/probes"
)

// Saved is the state of each worker, by its name, that a reload passes on: systemd does
// not report it to a new process.
type Saved map[string]SavedWorker

// SavedWorker is the part of one worker.
type SavedWorker struct {
	Restarts uint64        `json:"restarts"`
	Failures uint64        `json:"failures"`
	OOMKills uint64        `json:"oom_kills"`
	Latency  time.Duration `json:"latency_ns"`
	LastExit *probes.Exit  `json:"last_exit,omitempty"`
	Drained  bool          `json:"drained,omitempty"` // by an operator
	UsedAt   time.Time     `json:"used_at,omitzero"`  // when the last turn ended
}

// Save returns the state for Restore in the next process.
func (r roster) Save() Saved {
	saved := Saved{}
	for _, w := range r {
		s, _ := w.view()
		saved[w.name] = SavedWorker{
			Restarts: s.restarts.Total, Failures: s.failures, OOMKills: s.oomKills, Latency: s.latency, LastExit: s.exit,
			Drained: s.drains.operator, UsedAt: s.usedAt,
		}
	}
	return saved
}

// Restore takes over the saved state of another process. Both processes have counted
// the events since this one began, so each counter takes the larger value.
func (r roster) Restore(saved Saved) {
	for _, w := range r {
		before, ok := saved[w.name]
		if !ok {
			continue
		}
		w.update(func(s *state) {
			s.restarts.Total, s.failures = max(s.restarts.Total, before.Restarts), max(s.failures, before.Failures)
			s.oomKills = max(s.oomKills, before.OOMKills)
			s.outage.oomLogged = s.oomKills
			s.drains.operator = s.drains.operator || before.Drained
			if before.UsedAt.After(s.usedAt) {
				s.usedAt = before.UsedAt
			}
			if s.latency == 0 {
				s.latency = before.Latency
			}
			if s.exit == nil {
				s.exit = before.LastExit
			}
		})
	}
}
