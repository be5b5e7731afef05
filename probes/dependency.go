package probes

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// DependencyReason is the one-word reason why a dependency is ready or not. The vocabulary
// is closed: dashboards and runbooks match on it.
type DependencyReason string

const (
	// DependencyReady means that the unit is active: its first probe has passed, and its
	// watchdog restarts it when the probes fail for too long.
	DependencyReady DependencyReason = "ready"
	// DependencyStarting means that systemd is starting the unit, or has not reported its state yet.
	DependencyStarting DependencyReason = "starting"
	// DependencyBackingOff means that systemd, or before version 254 the unit's own start, waits
	// for the restart delay.
	DependencyBackingOff DependencyReason = "backing_off"
	// DependencyExited means that the process has ended and systemd has not begun to wait for its restart.
	DependencyExited DependencyReason = "exited"
	// DependencyStopping means that systemd ends the unit on request.
	DependencyStopping DependencyReason = "stopping"
	// DependencyStopped means that the unit is inactive.
	DependencyStopped DependencyReason = "stopped"
	// DependencyRefused means that another process holds its lock, its data or a port.
	DependencyRefused DependencyReason = "refused"
	// DependencyInvalid means that its file is missing or wrong.
	DependencyInvalid DependencyReason = "invalid"
	// DependencyStartLimitHit means that systemd has given up after too many restarts.
	DependencyStartLimitHit DependencyReason = "start_limit_hit"
	// DependencyFailed means that the unit has failed for another reason.
	DependencyFailed DependencyReason = "failed"
)

// DependencyReasons are all reasons of a dependency.
var DependencyReasons = []DependencyReason{
	DependencyReady, DependencyStarting, DependencyBackingOff, DependencyExited, DependencyStopping,
	DependencyStopped, DependencyRefused, DependencyInvalid, DependencyStartLimitHit, DependencyFailed,
}

// final are the reasons that end by a command of an operator alone.
var final = []DependencyReason{
	DependencyStopped, DependencyRefused, DependencyInvalid, DependencyStartLimitHit, DependencyFailed,
}

// Final reports whether only a command of an operator ends the reason.
func (r DependencyReason) Final() bool { return slices.Contains(final, r) }

// Dependency is the published state of one dependency, in the JSON of the probes.
type Dependency struct {
	Name          string           `json:"name"`
	Unit          string           `json:"unit"`
	ActiveState   string           `json:"active_state"` // empty: systemd has not reported it
	SubState      string           `json:"sub_state"`
	MainPID       uint32           `json:"main_pid"`
	StatusText    string           `json:"status_text,omitempty"`
	Ready         bool             `json:"ready"`
	Reason        DependencyReason `json:"reason"`
	Since         time.Time        `json:"since"` // when Reason took its value
	RestartsTotal uint64           `json:"restarts_total"`
	NextRestartAt *time.Time       `json:"next_restart_at"`
	LastExit      *Exit            `json:"last_exit"`
	// RequiredBy are the units that require it in their settings, in the order of their names.
	RequiredBy []string `json:"required_by"`
	// HoldsService: the service is not ready without it (ready_requires).
	HoldsService bool `json:"-"`
}

// DependencyFacts decide the reason of one dependency: the state of its unit over D-Bus.
type DependencyFacts struct {
	// ActiveState, SubState and Result have the same meaning as in Facts.
	ActiveState, SubState, Result string
	// HeldBack, JobPending and StartLimited have the same meaning as in Facts.
	HeldBack, JobPending, StartLimited bool
	// ExitStatus is the exit status of the main process, 0 if it did not exit by itself.
	ExitStatus int32
}

// Exit statuses of a dependency's main process after which systemd does not restart it
// (RestartPreventExitStatus= of codex-dependency@.service, sysexits.h).
const (
	refusedStatus = 75 // EX_TEMPFAIL
	invalidStatus = 78 // EX_CONFIG
)

// JudgeDependency returns the one reason that holds for a dependency.
func JudgeDependency(f DependencyFacts) DependencyReason {
	switch f.ActiveState {
	case "active", "reloading", "refreshing":
		return DependencyReady
	case "deactivating":
		return f.judgeDeactivating()
	case "failed":
		return f.judgeFailed()
	case "inactive":
		return f.judgeInactive()
	}
	if f.HeldBack || f.SubState == "auto-restart" || f.SubState == "auto-restart-queued" {
		return DependencyBackingOff
	}
	return DependencyStarting
}

// judgeDeactivating distinguishes a requested stop from systemd's cleanup after an end that
// nothing has requested.
func (f DependencyFacts) judgeDeactivating() DependencyReason {
	if reason, ended := f.endedForGood(); ended {
		return reason
	}
	if f.Result != "" && f.Result != "success" || !f.JobPending && f.SubState != "stop-sigterm" {
		return DependencyExited
	}
	return DependencyStopping
}

// endedForGood reports whether the main process has not started the server, for a reason that
// prevents a restart.
func (f DependencyFacts) endedForGood() (reason DependencyReason, ended bool) {
	switch {
	case f.Result != "exit-code":
		return "", false
	case f.ExitStatus == refusedStatus:
		return DependencyRefused, true
	case f.ExitStatus == invalidStatus:
		return DependencyInvalid, true
	}
	return "", false
}

// judgeFailed: failed-before-auto-restart lasts an instant and is not final.
func (f DependencyFacts) judgeFailed() DependencyReason {
	switch {
	case f.SubState != "failed":
		return DependencyExited
	case f.JobPending:
		return DependencyStarting
	case f.StartLimited:
		return DependencyStartLimitHit
	}
	if reason, ended := f.endedForGood(); ended {
		return reason
	}
	return DependencyFailed
}

func (f DependencyFacts) judgeInactive() DependencyReason {
	switch {
	case f.SubState == "dead-before-auto-restart":
		return DependencyExited
	case f.JobPending:
		return DependencyStarting
	}
	return DependencyStopped
}

// Sentence describes a dependency for operators: its name, its reason, and the remedy. It
// is empty for one that is ready.
func (d Dependency) Sentence() string {
	if d.Ready {
		return ""
	}
	parts := []string{"dependency " + d.Name + ": " + string(d.Reason)}
	switch {
	case d.StatusText != "" && d.ownStatus():
		parts[0] += ": " + d.StatusText
	case d.LastExit != nil && d.exitExplains():
		parts[0] += ", last exit " + d.LastExit.String()
	}
	if remedy := d.remedy(); remedy != "" {
		parts = append(parts, remedy)
	}
	return strings.Join(parts, "; ")
}

// withoutStatus is the dependency for any client of the network: a status has text of the server or a shell line, and
// after a refused start and a reset-failed still the command line of another process.
func (d Dependency) withoutStatus() Dependency {
	d.StatusText = ""
	return d
}

func withoutStatuses(all []Dependency) []Dependency {
	all = slices.Clone(all)
	for i := range all {
		all[i] = all[i].withoutStatus()
	}
	return all
}

// ownStatus reports whether the status text explains the reason. After a process that has
// run, it is of the time before the end.
func (d Dependency) ownStatus() bool {
	switch d.Reason {
	case DependencyStarting, DependencyStopping, DependencyRefused, DependencyInvalid:
		return true
	case DependencyStopped:
		return false
	}
	return d.LastExit == nil || d.LastExit.Code == ""
}

// exitExplains reports whether the last exit is why the dependency is not ready.
func (d Dependency) exitExplains() bool {
	switch d.Reason {
	case DependencyStarting, DependencyStopped, DependencyRefused:
		return false
	}
	return true
}

func (d Dependency) remedy() string {
	switch d.Reason {
	case DependencyStopped:
		return "systemctl start " + d.Unit
	case DependencyRefused:
		if d.StatusText != "" { // it has the first step
			return "systemctl start " + d.Unit
		}
		return fmt.Sprintf("end the process that `systemctl status %[1]s` names, then systemctl start %[1]s", d.Unit)
	case DependencyInvalid:
		return fmt.Sprintf("mend the file until codex-proxy dependencies check %s reports no fault, then "+
			"systemctl daemon-reload && systemctl restart %s", d.Name, d.Unit)
	case DependencyStartLimitHit, DependencyFailed:
		return fmt.Sprintf("see journalctl -u %[1]s, then systemctl reset-failed %[1]s && systemctl start %[1]s",
			d.Unit)
	case DependencyBackingOff, DependencyExited:
		return fmt.Sprintf("systemd restarts it; see journalctl -u %s", d.Unit)
	case DependencyStarting:
		return fmt.Sprintf("see systemctl status %s", d.Unit)
	}
	return ""
}
