package workers

import (
	"fmt"
	"log/slog"

	"codex-proxy/probes"
)

// manyRestarts in a row are no accident any more.
const manyRestarts = 3

// outage is what the log has told of the current one, so that each is told once.
type outage struct {
	loopTold  bool // cleared by ResetAfter of health
	limitTold bool // cleared when the unit is no longer failed
	oomTold   uint64
}

// logOutage tells a person, once, that restarts do not help, and once that
// systemd has given up. A kill for lack of memory is logged each time.
func (w *Worker) logOutage(s *state) {
	if s.outage.oomTold < s.oomKills {
		s.outage.oomTold = s.oomKills
		w.outageLog(s).Warn("worker was killed: out of memory",
			"oom_kills", s.oomKills, "remedy", probes.OutOfMemoryRemedy(w.unit))
	}
	if !s.outage.limitTold && s.reason() == probes.StartLimitHit {
		s.outage.limitTold = true
		w.outageLog(s).Error("worker is given up: systemd's start limit is hit", "n_restarts", s.unit.NRestarts,
			"remedy", fmt.Sprintf("see journalctl -u %s, mend the cause, then systemctl reset-failed 'codex-worker@*' && systemctl start codex.target", w.unit))
	}
	if !s.outage.loopTold && s.failures >= manyRestarts && !s.unit.Failed() {
		s.outage.loopTold = true
		w.outageLog(s).Warn("worker keeps failing: the delay before each restart grows", "consecutive_failures", s.failures,
			"remedy", fmt.Sprintf("see journalctl -u %s; it is tried until its start limit", w.unit))
	}
}

func (w *Worker) outageLog(s *state) *slog.Logger {
	return w.settings.Logger.With("worker", w.name, "unit", w.unit, "reason", string(s.reason()), "last_exit", s.exit.String())
}

// healthy ends the outage.
func (s *state) healthy() { s.failures, s.outage.loopTold = 0, false }
