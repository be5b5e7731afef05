package units

import (
	"encoding/hex"
	"time"

	"codex-proxy/units/properties"
)

// State is the state of one unit as systemd reports it. Times are of the machine's
// wall clock with microseconds, zero if systemd never set them. Fields that the
// unit's type lacks (a socket has no main process) are zero.
type State struct {
	Unit         string
	LoadState    string // loaded, not-found, masked, bad-setting, error
	ActiveState  string // active, reloading, inactive, failed, activating, deactivating
	SubState     string // running, dead, failed, auto-restart, start, stop-sigterm, …
	Result       string // success, exit-code, signal, core-dump, watchdog, timeout, oom-kill, …
	InvocationID string // hexadecimal, new with every start
	StatusText   string // the STATUS= that the service sent, sd_notify(3)
	StatusErrno  int32  // the errno(3) of a failure that the service reported, or 0
	MainPID      uint32

	// NRestarts counts automatic restarts since the last explicit start or
	// ResetFailed. systemd also counts the one that the start limit refused.
	NRestarts uint32

	// The last end of the main process, in the terms of waitid(2); systemd clears
	// these when the unit starts again. See LastExit.
	ExecMainCode   int32
	ExecMainStatus int32
	ExecMainExitAt time.Time

	StateChangedAt time.Time
	LeftInactiveAt time.Time // to start, or to wait for the automatic restart

	// NextRestartAt is the time of the automatic restart, zero unless the unit waits
	// for it. It follows the auto-restart state by one bus round trip.
	NextRestartAt time.Time
	// HeldBack: the unit starts, and its own process still waits for the rest of the
	// restart delay, because systemd before 254 has no growing delays; see package restartdelay.
	HeldBack bool

	JobPending bool // systemd has a job for the unit: a start, a stop, a restart
}

// Active reports whether the unit runs. A unit that reloads still does.
func (s State) Active() bool {
	switch s.ActiveState {
	case "active", "reloading", "refreshing":
		return true
	}
	return false
}

// Failed reports whether systemd has given up on the unit: it stays down until a
// start or a reset. Before an automatic restart a unit passes through
// failed/failed-before-auto-restart, which is no such failure; a systemd before 254
// calls that failed/failed too, and the watcher does not publish it.
func (s State) Failed() bool {
	return s.ActiveState == "failed" && s.SubState != "failed-before-auto-restart"
}

// StartLimited reports whether the unit has failed because systemd's start limit
// keeps it down. Result is start-limit-hit only if explicit starts hit the limit:
// after a crash loop systemd keeps the Result of the crash. Then the unit has
// restarted, and has waited for one more restart after its last run; after a stop
// that ended in a failure it has not.
func (s State) StartLimited() bool {
	crashLoop := s.NRestarts > 0 && !s.ExecMainExitAt.After(s.LeftInactiveAt)
	return s.Failed() && (s.Result == "start-limit-hit" || crashLoop)
}

// Waiting reports whether the unit is between an unrequested end and its next start.
func (s State) Waiting() bool {
	switch s.SubState {
	case "auto-restart", "auto-restart-queued", "failed-before-auto-restart", "dead-before-auto-restart":
		return true
	}
	return false
}

// StateOf is the state of a unit by its properties.
func StateOf(unit string, v properties.Values) State {
	id, _ := properties.Value[[]byte](v, "InvocationID")
	s := State{
		Unit:           unit,
		LoadState:      v.Text("LoadState"),
		ActiveState:    v.Text("ActiveState"),
		SubState:       v.Text("SubState"),
		Result:         v.Text("Result"),
		InvocationID:   hex.EncodeToString(id),
		StatusText:     v.Text("StatusText"),
		StatusErrno:    v.Int32("StatusErrno"),
		MainPID:        v.Uint32("MainPID"),
		NRestarts:      v.Uint32("NRestarts"),
		ExecMainCode:   v.Int32("ExecMainCode"),
		ExecMainStatus: v.Int32("ExecMainStatus"),
		ExecMainExitAt: v.Time("ExecMainExitTimestamp"),
		StateChangedAt: v.Time("StateChangeTimestamp"),
		LeftInactiveAt: v.Time("InactiveExitTimestamp"),
		JobPending:     v.Job() != 0,
	}
	if v.Missing("LoadState") { // systemd has no object for the name
		s.LoadState = "not-found"
	}
	if delay, ok := v.RestartDelay(); ok && !v.WaitingSince().IsZero() {
		s.NextRestartAt = s.StateChangedAt.Add(delay)
	}
	if until, held := v.Held(); held {
		s.HeldBack, s.NextRestartAt = true, until
	}
	return s
}
