package workers

import (
	"codex-proxy/probes"
	"codex-proxy/units"
)

// bus is how far the last unit state is to be believed.
type bus int

const (
	busUnknown bus = iota // systemd has not answered yet
	busCurrent            // the unit state is current
	busLost               // the bus is gone: the unit state may be stale
	busNone               // there is no bus here at all
)

// unitState is the part of a worker's state that comes from systemd.
type unitState struct {
	bus  bus
	unit units.State
	// limited: the unit has failed because of its start limit.
	limited bool

	restarts uint64       // never decreases
	counted  uint32       // NRestarts up to the current invocation
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
		s.count(u, limited)
	}
	if exit := exitOf(u); exit != nil {
		s.setExit(exit)
	}
	if u.HeldBack { // the earlier status has the reason why the unit is down
		u.StatusText = s.unit.StatusText
	}
	s.counted = min(s.counted, u.NRestarts)
	if u.InvocationID != s.unit.InvocationID {
		s.counted = u.NRestarts
	}
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

// count adds the restarts and failures since the last report. A restart is a new
// invocation that began by itself. NRestarts alone also counts the restart that the
// start limit refused, and reset-failed sets it to zero.
func (s *unitState) count(u units.State, limited bool) {
	if u.InvocationID != s.unit.InvocationID && u.InvocationID != "" && u.NRestarts > 0 {
		s.restarts += max(1, uint64(u.NRestarts)-uint64(min(s.counted, u.NRestarts)))
	}
	if (limited || waiting(u)) && !waiting(s.unit) && !s.unit.Failed() {
		s.failures++
	}
}

// startCancelled reports whether a unit that has failed was starting before, and has
// not waited for another start since: an operator stopped it. systemd records
// nothing else of a start that has not come to its main process.
func (s *unitState) startCancelled(u units.State) bool {
	if s.unit.Unit == "" || u.Result == "start-limit-hit" || !u.LeftInactiveAt.Equal(s.unit.LeftInactiveAt) {
		return false
	}
	if waiting(s.unit) {
		return u.InvocationID != s.unit.InvocationID
	}
	return !s.limited
}

// waiting reports whether the unit is between an unrequested end and the next start.
func waiting(u units.State) bool {
	switch u.SubState {
	case "auto-restart", "auto-restart-queued", "failed-before-auto-restart", "dead-before-auto-restart":
		return true
	}
	return false
}

func starting(u units.State) bool {
	return u.ActiveState == "activating" && !u.HeldBack &&
		u.SubState != "auto-restart" && u.SubState != "auto-restart-queued"
}

// exitOf is how the unit's last run ended; nil while systemd does not report it. A
// start that failed before the main process ran has only a result.
func exitOf(u units.State) *probes.Exit {
	if e, ok := u.LastExit(); ok {
		return &probes.Exit{Result: e.Result, Code: e.Code, Status: e.Status, At: e.At}
	}
	if (waiting(u) || u.Failed()) && u.Result != "success" {
		return &probes.Exit{Result: u.Result, At: u.StateChangedAt}
	}
	return nil
}
