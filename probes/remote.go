package probes

import (
	"fmt"
	"strings"
	"time"
)

// RemoteReason is the one-word reason why a remote is ready or not. The vocabulary is closed: dashboards and runbooks
// match on it.
type RemoteReason string

const (
	// RemoteReady means that the unit is active: its codex answers, and cut turns go on.
	RemoteReady RemoteReason = "ready"
	// RemoteAsleep means that the unit is inactive: an attach starts it.
	RemoteAsleep RemoteReason = "asleep"
	// RemoteStarting means that systemd is starting the unit.
	RemoteStarting RemoteReason = "starting"
	// RemoteBackingOff means that systemd, or before version 254 the unit's own start, waits for the restart delay.
	RemoteBackingOff RemoteReason = "backing_off"
	// RemoteExited means that codex has ended and systemd has not begun to wait for its restart.
	RemoteExited RemoteReason = "exited"
	// RemoteStopping means that systemd ends the unit on request.
	RemoteStopping RemoteReason = "stopping"
	// RemoteInvalid means that its file is wrong, or that systemd has not read it since its change.
	RemoteInvalid RemoteReason = "invalid"
	// RemoteStartLimitHit means that systemd has given up after too many restarts.
	RemoteStartLimitHit RemoteReason = "start_limit_hit"
	// RemoteFailed means that the unit has failed for another reason.
	RemoteFailed RemoteReason = "failed"
)

// RemoteReasons are all reasons of a remote.
var RemoteReasons = []RemoteReason{RemoteReady, RemoteAsleep, RemoteStarting, RemoteBackingOff, RemoteExited,
	RemoteStopping,
	RemoteInvalid, RemoteStartLimitHit, RemoteFailed}

// Down reports whether the remote is to run, and does not.
func (r RemoteReason) Down() bool {
	return r != RemoteReady && r != RemoteAsleep && r != RemoteStopping
}

// Final reports whether an attach does not start the remote.
func (r RemoteReason) Final() bool {
	return r == RemoteInvalid || r == RemoteStartLimitHit || r == RemoteFailed
}

// JudgeRemote returns the one reason that holds for a remote.
func JudgeRemote(f DependencyFacts) RemoteReason {
	switch reason := JudgeDependency(f); reason {
	case DependencyStopped:
		return RemoteAsleep
	case DependencyRefused: // no remote ends with that status by itself
		return RemoteFailed
	default:
		return RemoteReason(reason)
	}
}

// Remote is the published state of one remote. Programs on the network do not get it.
type Remote struct {
	Name          string       `json:"name"`
	Unit          string       `json:"unit"`
	ActiveState   string       `json:"active_state"` // empty: systemd has not reported it
	SubState      string       `json:"sub_state"`
	StatusText    string       `json:"status_text,omitempty"`
	Ready         bool         `json:"ready"`
	Reason        RemoteReason `json:"reason"`
	Since         time.Time    `json:"since"` // when Reason took its value
	RestartsTotal uint64       `json:"restarts_total"`
	NextRestartAt *time.Time   `json:"next_restart_at"`
	LastExit      *Exit        `json:"last_exit"`
	// NotReady is the total time that the remote was down.
	NotReady time.Duration `json:"-"`
	// Use is the last report of its manager; nil: it was never asked.
	Use *RemoteUse `json:"use,omitempty"`
}

// RemoteUse is the report of a remote's main process.
type RemoteUse struct {
	At      time.Time `json:"at"` // of the answer
	Owners  int       `json:"owners"`
	Viewers int       `json:"viewers"`
	Turns   int       `json:"turns"` // that run or wait
	// TurnSince is since when the oldest of them runs; zero: none runs.
	TurnSince time.Time `json:"turn_since,omitzero"`
	// AloneSince is since when a turn waits for a person with no owner attached; zero: none does.
	AloneSince time.Time `json:"alone_since,omitzero"`
	Account    string    `json:"account,omitempty"` // in use; empty: none
	// Continued, GivenUp and Switches count since the remote was made; its ledger has them.
	Continued int `json:"continued"`
	GivenUp   int `json:"given_up"`
	Switches  int `json:"switches"`
	// Commands are those that its hands have executed since its main process has started.
	Commands int `json:"commands,omitempty"`
	// Ended and Failed count the turns that have ended since its main process has started, and those of them that codex
	// itself has failed. Fault is the last fault.
	Ended  int    `json:"-"`
	Failed int    `json:"-"`
	Fault  string `json:"-"`
	// Unknown are requests of clients that were refused because this codex-proxy does not know them.
	Unknown []string `json:"unknown_requests,omitempty"`
}

// AtRest is the use of a remote that does not run: nobody is attached, and the counts stay.
func (u *RemoteUse) AtRest() *RemoteUse {
	if u == nil {
		return nil
	}
	return &RemoteUse{At: u.At, Account: u.Account, Continued: u.Continued, GivenUp: u.GivenUp, Switches: u.Switches,
		Commands: u.Commands}
}

// Sentence describes a remote that is down for operators: its name, its reason, and the remedy. It is empty for others.
func (r Remote) Sentence() string {
	if !r.Reason.Down() || r.Reason == RemoteStarting {
		return ""
	}
	text := "remote " + r.Name + ": " + string(r.Reason)
	if why, not := strings.CutPrefix(r.StatusText, "Not started: "); not {
		text += ": " + why
	} else if r.LastExit != nil {
		text += ", last exit " + r.LastExit.String()
	}
	switch r.Reason {
	case RemoteInvalid:
		return text + fmt.Sprintf("; mend the file until codex-proxy remotes check %s reports no fault, then systemctl "+
			"daemon-reload && systemctl reset-failed %s", r.Name, r.Unit)
	case RemoteStartLimitHit, RemoteFailed:
		return text + fmt.Sprintf("; see journalctl -u %[1]s, then systemctl reset-failed %[1]s; an attach starts it",
			r.Unit)
	}
	return text + "; systemd restarts it; see journalctl -u " + r.Unit
}
