package units

import "time"

// State is what systemd says of one unit. Times are the machine's wall clock
// with microseconds, zero when systemd never set them. Fields that the unit's
// type lacks (a socket has no main process) are zero.
type State struct {
	Unit         string
	LoadState    string // loaded, not-found, masked, bad-setting, error
	ActiveState  string // active, reloading, inactive, failed, activating, deactivating
	SubState     string // running, dead, failed, auto-restart, start, stop-sigterm, …
	Result       string // success, exit-code, signal, core-dump, watchdog, timeout, oom-kill, …
	InvocationID string // hexadecimal, new with every start
	StatusText   string // what the service said of itself by sd_notify
	StatusErrno  int32  // the errno(3) of a failure that the service reported, or 0
	MainPID      uint32

	// NRestarts counts automatic restarts since the last explicit start or
	// ResetFailed. systemd also counts the one that the start limit refused.
	NRestarts uint32

	// How the main process last ended, as waitid(2) has it; systemd clears
	// these when the unit starts again. See LastExit.
	ExecMainCode   int32
	ExecMainStatus int32
	ExecMainExitAt time.Time

	StateChangedAt time.Time
	LeftInactiveAt time.Time // to start, or to wait for the automatic restart

	// NextRestartAt is when systemd will start the unit again, zero unless it
	// is waiting to. It follows the auto-restart state by one bus round trip.
	NextRestartAt time.Time
	// HeldBack: the unit starts, and its own process still waits for what is left
	// of the restart delay, as systemd has none that grow (before 254). See Holdback.
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

// Failed reports whether systemd has given up on the unit: it stays down until
// someone starts it or resets it. On its way to an automatic restart a unit
// passes through failed/failed-before-auto-restart, which is not that; the
// watcher hides that older systemd calls it failed/failed.
func (s State) Failed() bool {
	return s.ActiveState == "failed" && s.SubState != "failed-before-auto-restart"
}

// StartLimited reports whether the unit has failed because systemd's start limit
// keeps it down. Result tells only where starts that were asked for were too many:
// after a crash loop systemd keeps that of the crash. Then the unit has restarted,
// and waited for one restart more after its last run; after a stop that has ended in
// a failure it has not.
func (s State) StartLimited() bool {
	return s.Failed() && (s.Result == "start-limit-hit" || s.NRestarts > 0 && !s.ExecMainExitAt.After(s.LeftInactiveAt))
}
