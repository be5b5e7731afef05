package workers

import (
	"codex-proxy/probes"
	"codex-proxy/units"
	"codex-proxy/units/restarts"
)

// bus is how far the last unit state is to be believed.
type bus int

const (
	busUnknown bus = iota // systemd has not answered yet
	busCurrent            // the unit state is current
	busLost               // the bus is gone: the unit state may be stale
	busNone               // there is no bus here at all
)

// unitState is the part of a worker's state that systemd reports.
type unitState struct {
	bus  bus
	unit units.State
	// limited: the unit has failed because of its start limit.
	limited bool

	restarts restarts.Counter
	exit     *probes.Exit // the last one reported; systemd forgets it at the next start
	failures uint64       // in a row, until ResetAfter of health
	oomKills uint64       // runs that ended for lack of memory; never decreases
}

// mayDial reports whether connecting cannot start the worker: systemd starts a
// unit that is not active for a connection to its socket.
func (s *unitState) mayDial() bool {
	return s.bus == busNone || s.bus == busCurrent && s.unit.Active()
}

// setBus takes over how far the unit state is to be believed. A bus that has
// reported the unit and has disappeared is lost, not absent: systemd still holds
// the worker's socket.
func (s *unitState) setBus(b bus) {
	if b == busNone && s.unit.Unit != "" {
		b = busLost
	}
	s.bus = b
}

func (s *unitState) setUnit(u units.State) {
	limited := u.StartLimited() && !s.startCancelled(u)
	if s.unit.Unit != "" {
		s.countFailure(u, limited)
	}
	if end, ok := u.LastEnd(); ok {
		s.setExit((*probes.Exit)(&end))
	}
	if u.HeldBack { // the earlier status has the reason why the unit is down
		u.StatusText = s.unit.StatusText
	}
	s.restarts.Observe(u)
	s.unit, s.limited = u, limited
	s.setBus(s.bus) // a unit was reported, so there is a bus
}

// setExit takes over the end of a run, which systemd reports more than once.
func (s *unitState) setExit(exit *probes.Exit) {
	known := s.exit != nil && *s.exit == *exit
	if exit.OutOfMemory() && !known && s.unit.Unit != "" {
		s.oomKills++
	}
	s.exit = exit
}

// countFailure counts a failure since the last report.
func (s *unitState) countFailure(u units.State, limited bool) {
	if (limited || u.Waiting()) && !s.unit.Waiting() && !s.unit.Failed() {
		s.failures++
	}
}

// startCancelled reports whether a unit that has failed was starting before, and has
// not waited for another start since: an operator stopped it. systemd records
// nothing else of a start that has no main process yet.
func (s *unitState) startCancelled(u units.State) bool {
	if s.unit.Unit == "" || u.Result == "start-limit-hit" || !u.LeftInactiveAt.Equal(s.unit.LeftInactiveAt) {
		return false
	}
	if s.unit.Waiting() {
		return u.InvocationID != s.unit.InvocationID
	}
	return !s.limited
}

func starting(u units.State) bool {
	return u.ActiveState == "activating" && !u.HeldBack &&
		u.SubState != "auto-restart" && u.SubState != "auto-restart-queued"
}
