package workers

import (
	"time"

	"codex-proxy/probes"
)

// Saved is what a pool knows of its workers and systemd would not tell a new
// process: it survives a reload.
type Saved map[string]SavedWorker

// SavedWorker is one worker's part of a Saved.
type SavedWorker struct {
	Restarts uint64        `json:"restarts"`
	Failures uint64        `json:"failures"`
	OOMKills uint64        `json:"oom_kills"`
	Latency  time.Duration `json:"latency_ns"`
	LastExit *probes.Exit  `json:"last_exit,omitempty"`
	Drained  bool          `json:"drained,omitempty"` // by an operator
}

// Save returns what Restore of another process takes over.
func (p *Pool) Save() Saved {
	m := Saved{}
	for _, w := range p.workers {
		s, _ := w.view()
		m[w.name] = SavedWorker{
			Restarts: s.restarts, Failures: s.failures, OOMKills: s.oomKills, Latency: s.latency, LastExit: s.exit,
			Drained: s.drains.operator,
		}
	}
	return m
}

// Restore takes over the memory of another process. What this one has seen by
// itself meanwhile, the other has seen, too, so counters take the larger value.
func (p *Pool) Restore(m Saved) {
	for _, w := range p.workers {
		r, ok := m[w.name]
		if !ok {
			continue
		}
		w.update(func(s *state) {
			s.restarts, s.failures = max(s.restarts, r.Restarts), max(s.failures, r.Failures)
			s.oomKills = max(s.oomKills, r.OOMKills)
			s.outage.oomTold = s.oomKills
			s.drains.operator = s.drains.operator || r.Drained
			if s.latency == 0 {
				s.latency = r.Latency
			}
			if s.exit == nil {
				s.exit = r.LastExit
			}
		})
	}
}
