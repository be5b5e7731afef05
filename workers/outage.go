package workers

import (
	"fmt"
	"log/slog"

	"codex-proxy/probes"
)

// manyRestarts in a row are no accident.
const manyRestarts = 3

// outage records the logged lines of the current outage, so that each is logged once.
type outage struct {
	loopLogged  bool // cleared by ResetAfter of health
	limitLogged bool // cleared when the unit is no longer failed
	oomLogged   uint64
}

// logOutage logs once that restarts do not help, and once that systemd has given
// up. It logs every kill for lack of memory.
func (s *state) logOutage(unit string, logger *slog.Logger) {
	oom := s.outage.oomLogged < s.oomKills
	limit := !s.outage.limitLogged && s.reason() == probes.StartLimitHit
	loop := !s.outage.loopLogged && s.failures >= manyRestarts && !s.unit.Failed()
	if !oom && !limit && !loop {
		return
	}
	logger = logger.With("reason", string(s.reason()), "last_exit", s.exit.String())
	if oom {
		s.outage.oomLogged = s.oomKills
		logger.Warn("worker was killed: out of memory",
			"oom_kills", s.oomKills, "remedy", probes.OutOfMemoryRemedy(unit))
	}
	if limit {
		s.outage.limitLogged = true
		logger.Error("worker is given up: systemd's start limit is hit", "n_restarts", s.unit.NRestarts,
			"remedy", fmt.Sprintf("see journalctl -u %s, mend the cause, then systemctl reset-failed 'codex-worker@*'"+
				" && systemctl start codex.target", unit))
	}
	if loop {
		s.outage.loopLogged = true
		logger.Warn("worker keeps failing: the delay before each restart grows", "consecutive_failures", s.failures,
			"remedy", fmt.Sprintf("see journalctl -u %s; systemd restarts it until its start limit", unit))
	}
}

// healthy ends the outage.
func (s *state) healthy() { s.failures, s.outage.loopLogged = 0, false }
