package survey

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"codex-proxy/internal/checkup"
	"codex-proxy/internal/paths"
	"codex-proxy/units"
)

// units checks that every unit is installed, runs, and starts at boot.
func (w *whole) units(context.Context) []checkup.Finding {
	if w.BusErr != nil {
		return checkup.Unchecked("", "systemd does not answer", "bus").Alone()
	}
	var found []checkup.Finding
	for _, name := range w.needed() {
		if err := w.UnitErrs[name]; err != nil {
			found = append(found, checkup.Failure(name, "not checked: "+err.Error(), "systemctl status "+name))
			continue
		}
		found = append(found, w.judge(w.Units[name])...)
	}
	return checkup.OrPassed(found, fmt.Sprintf("%d installed and active, wanted at boot", len(w.needed())))
}

func (w *whole) judge(d units.Description) []checkup.Finding {
	if f, bad := JudgeFile(d); bad {
		return []checkup.Finding{f}
	}
	var found []checkup.Finding
	if f, bad := judgeState(d); bad && !w.Standby(d.Unit) {
		found = append(found, f)
	}
	if d.NeedReload {
		found = append(found, checkup.Warning(d.Unit, "its files have changed, and systemd has not read them",
			"systemctl daemon-reload"))
	}
	if f, bad := judgeBoot(d); bad {
		found = append(found, f)
	}
	return found
}

// JudgeFile returns the fault of a unit that systemd could not load.
func JudgeFile(d units.Description) (checkup.Finding, bool) {
	switch d.LoadState {
	case "loaded":
		return checkup.Finding{}, false
	case "not-found":
		return checkup.Failure(d.Unit, "is not installed", "reinstall the package, then systemctl daemon-reload"), true
	case "masked":
		return checkup.Failure(d.Unit, "is masked: it cannot be started", "systemctl unmask "+d.Unit), true
	}
	return checkup.Failure(d.Unit, "systemd cannot use its file ("+d.LoadState+")", "systemd-analyze verify "+d.Unit),
		true
}

func judgeState(d units.Description) (checkup.Finding, bool) {
	blamed, reset := d.Unit, "'"+d.Unit+"'"
	if d.Result == "service-start-limit-hit" { // of a socket; the limit is the service's
		blamed = strings.TrimSuffix(d.Unit, ".socket") + ".service"
		reset += " '" + blamed + "'"
	}
	journal := fmt.Sprintf("journalctl -u %s -n 20, and mend the cause", blamed)
	switch {
	case d.ActiveState == "active" || d.ActiveState == "reloading" || d.ActiveState == "refreshing":
		return checkup.Finding{}, false
	case d.Failed():
		return checkup.Failure(d.Unit, "has failed"+Why(d),
			fmt.Sprintf("%s; then systemctl reset-failed %s && systemctl start codex.target", journal, reset)), true
	case d.ActiveState == "failed" || d.HeldBack || strings.HasPrefix(d.SubState, "auto-restart"):
		return checkup.Failure(d.Unit, "keeps failing, and waits for its next start"+Why(d), journal), true
	case d.ActiveState == "activating" || d.ActiveState == "deactivating":
		return checkup.Warning(d.Unit, fmt.Sprintf("is on its way (%s, %s)", d.ActiveState, d.SubState),
				"look again in a minute"),
			true
	case d.Unit == paths.TargetUnit:
		return checkup.Warning(d.Unit, "is not active: systemctl stop codex.target would stop nothing",
			"systemctl start codex.target"), true
	}
	return checkup.Failure(d.Unit, "is stopped", "systemctl start "+starter(d)), true
}

// starter is the unit to start so that d runs together with the units it belongs to.
func starter(d units.Description) string {
	if strings.HasSuffix(d.Unit, ".socket") || slices.Contains(d.WantedBy, paths.TargetUnit) {
		return paths.TargetUnit
	}
	return d.Unit
}

// Why is the cause of the unit's end, from systemd and from the unit's own status.
func Why(d units.Description) string {
	text := ""
	switch e, ran := d.LastExit(); {
	case ran:
		text = " (" + e.String() + ")"
	case d.Result != "" && d.Result != "success":
		text = " (" + d.Result + ")"
	}
	if strings.HasPrefix(d.StatusText, "Not started: ") { // of worker-prepare
		text += ": " + strings.TrimPrefix(d.StatusText, "Not started: ")
	}
	return text
}

// judgeBoot checks that the target is enabled and that a unit wants each service. The
// services want their sockets.
func judgeBoot(d units.Description) (checkup.Finding, bool) {
	switch {
	case d.Unit == paths.TargetUnit && d.FileState != "enabled":
		return checkup.Warning(d.Unit, "does not start at boot ("+d.FileState+")", "systemctl enable codex.target"),
			true
	case strings.HasSuffix(d.Unit, ".service") && len(d.WantedBy) == 0:
		return checkup.Warning(d.Unit, "does not start at boot", "systemctl enable "+d.Unit), true
	}
	return checkup.Finding{}, false
}
