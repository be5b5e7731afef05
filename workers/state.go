package workers

import (
	"time"

	"codex-proxy/probes"
	"codex-proxy/units"
)

// state is all that changes in a Worker. It is touched only under Worker.mu,
// through Worker.change and Worker.view; slots also through slot.
type state struct {
	unitState
	connState
	slots

	wedge       wedge
	drains      drains
	standby     standby
	unmet       Unmet
	transitions transitions
	outage      outage
}

func (s *state) reason() probes.Reason { return probes.Judge(s.facts()) }

func (s *state) facts() probes.Facts {
	f := probes.Facts{
		NoBus:       s.connectionDecides(),
		ActiveState: s.unit.ActiveState, SubState: s.unit.SubState, Result: s.unit.Result,
		HeldBack: s.unit.HeldBack, JobPending: s.unit.JobPending, StartLimited: s.limited,
		Handshake: s.conn != nil, Lost: s.lost, Draining: s.draining() ||
			s.standby.rests(s.unit.InvocationID), Drained: s.drains.operator,
		Standby: s.standsBy(), Unmet: s.unmet.Reason, Bound: s.unmet.Bound,
	}
	if s.handshake != nil {
		f.Models = len(s.handshake.Models)
	}
	return f
}

// connectionDecides reports whether the connection alone decides on readiness.
// While the bus is lost, the last unit state still describes a unit that was down.
func (s *state) connectionDecides() bool {
	return s.bus == busNone || s.bus == busLost && (s.conn != nil || s.unit.Unit == "" || s.unit.Active())
}

// neverReported reports whether systemd has not answered since this process began
// and the worker was never connected. Its unit is unknown and may run.
func (s *state) neverReported() bool { return s.bus == busLost && s.unit.Unit == "" && !s.reached }

// setUnit takes over the state that systemd reports. It does not make the bus
// current: the bus may fail again before every unit is reported.
func (s *state) setUnit(u units.State, now time.Time) {
	if !u.Active() || u.InvocationID != s.unit.InvocationID {
		s.lost, s.dialAfter, s.dialPause = false, time.Time{}, 0
		s.unreachableSince = time.Time{}
	}
	if starting(u) && !starting(s.unit) {
		s.startedAt = now
	}
	if u.ActiveState != "inactive" {
		s.standby.started()
	}
	failures := s.failures
	s.unitState.setUnit(u)
	if s.drains.renews(u.InvocationID) && u.Result == "success" { // its end is no failure
		s.failures = failures
	}
	if !u.Failed() {
		s.outage.limitLogged = false
	}
}

// disconnected plans the next attempt to connect.
func (s *state) disconnected(now time.Time) {
	s.conn, s.handshake, s.lost = nil, nil, true
	s.dialAfter = now.Add(afterLossWait)
	switch {
	case s.bus == busNone:
		s.dialAfter = now.Add(minDialPause)
	case s.wedged() != "":
		s.dialAfter = now.Add(wedgedWait)
	}
}

// dialFailed plans the next attempt to connect. If the socket accepted, systemd
// may have accepted for a worker that has just died; it gets as long to report
// this as after a loss.
func (s *state) dialFailed(err error, now time.Time) {
	s.connState.dialFailed(err, now)
	if s.bus != busNone && !nobodyListens(err) {
		s.dialAfter = now.Add(max(s.dialPause, afterLossWait))
	}
}
