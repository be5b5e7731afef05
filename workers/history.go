package workers

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"codex-proxy/probes"
)

// maxTransitions is enough for two whole restarts.
const maxTransitions = 12

// transitions are the last changes of a worker's reason, oldest first.
type transitions []probes.Transition

// add records the reason and reports whether it is a new one.
func (t *transitions) add(reason probes.Reason, now time.Time) bool {
	n := len(*t)
	if n > 0 && (*t)[n-1].Reason == reason {
		return false
	}
	if n == maxTransitions {
		*t = (*t)[1:]
	}
	*t = append(*t, probes.Transition{Reason: reason, At: now})
	return true
}

// chain lists the reasons since the worker was last ready, each with how long it
// held: "handshake_lost 2ms, backing_off 100ms, …".
func (t transitions) chain() string {
	last := len(t) - 1
	first := last
	for first > 0 && t[first-1].Reason != probes.Ready {
		first--
	}
	var steps []string
	for i := first; i < last; i++ {
		steps = append(steps, fmt.Sprintf("%s %s", t[i].Reason, t[i+1].At.Sub(t[i].At).Round(time.Millisecond)))
	}
	return strings.Join(steps, ", ")
}

// logReason logs an outage in two lines: that systemd waits to restart the worker
// and why, and the whole chain of reasons when the worker is ready again.
func (s *state) logReason(logger *slog.Logger) {
	switch reason := s.reason(); reason {
	case probes.Ready:
		logger.Info("worker ready", "chain", s.transitions.chain(), "latency_ms", s.latency.Milliseconds(),
			"models", len(s.handshake.Models))
	case probes.BackingOff:
		logger.Info("worker is down", "reason", string(reason), "last_exit", s.exit.String(),
			"n_restarts", s.unit.NRestarts)
	}
}

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
