package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"codex-proxy/units"
)

// checkUnits checks that every unit is installed, runs, and starts at boot.
func checkUnits(_ context.Context, s *survey) []Finding {
	if s.busErr != nil {
		return []Finding{unchecked("", "systemd does not answer", "bus")}
	}
	var found []Finding
	for _, name := range s.unitNames() {
		if err := s.unitErrs[name]; err != nil {
			found = append(found, fail(name, "not checked: "+err.Error(), "systemctl status "+name))
			continue
		}
		found = append(found, s.judge(s.units[name])...)
	}
	return orOK(found, fmt.Sprintf("%d installed and active, wanted at boot", len(s.unitNames())))
}

func (s *survey) judge(d units.Description) []Finding {
	if f, bad := judgeFile(d); bad {
		return []Finding{f}
	}
	var found []Finding
	if f, bad := judgeState(d); bad && !s.standby(d.Unit) {
		found = append(found, f)
	}
	if d.NeedReload {
		found = append(found, warn(d.Unit, "its files have changed, and systemd has not read them",
			"systemctl daemon-reload"))
	}
	if f, bad := judgeBoot(d); bad {
		found = append(found, f)
	}
	return found
}

func judgeFile(d units.Description) (Finding, bool) {
	switch d.LoadState {
	case "loaded":
		return Finding{}, false
	case "not-found":
		return fail(d.Unit, "is not installed", "reinstall the package, then systemctl daemon-reload"), true
	case "masked":
		return fail(d.Unit, "is masked: it cannot be started", "systemctl unmask "+d.Unit), true
	}
	return fail(d.Unit, "systemd cannot use its file ("+d.LoadState+")", "systemd-analyze verify "+d.Unit), true
}

func judgeState(d units.Description) (Finding, bool) {
	blamed, reset := d.Unit, "'"+d.Unit+"'"
	if d.Result == "service-start-limit-hit" { // of a socket; the limit is the service's
		blamed = strings.TrimSuffix(d.Unit, ".socket") + ".service"
		reset += " '" + blamed + "'"
	}
	journal := fmt.Sprintf("journalctl -u %s -n 20, and mend the cause", blamed)
	switch {
	case d.ActiveState == "active" || d.ActiveState == "reloading" || d.ActiveState == "refreshing":
		return Finding{}, false
	case d.Failed():
		return fail(d.Unit, "has failed"+why(d), fmt.Sprintf("%s; then systemctl reset-failed %s && systemctl start "+
			"codex.target", journal, reset)), true
	case d.ActiveState == "failed" || d.HeldBack || strings.HasPrefix(d.SubState, "auto-restart"):
		return fail(d.Unit, "keeps failing, and waits for its next start"+why(d), journal), true
	case d.ActiveState == "activating" || d.ActiveState == "deactivating":
		return warn(d.Unit, fmt.Sprintf("is on its way (%s, %s)", d.ActiveState, d.SubState), "look again in a minute"),
			true
	case d.Unit == targetUnit:
		return warn(d.Unit, "is not active: systemctl stop codex.target would stop nothing",
			"systemctl start codex.target"), true
	}
	return fail(d.Unit, "is stopped", "systemctl start "+starter(d)), true
}

// starter is the unit to start so that d runs together with the units it belongs to.
func starter(d units.Description) string {
	if strings.HasSuffix(d.Unit, ".socket") || slices.Contains(d.WantedBy, targetUnit) {
		return targetUnit
	}
	return d.Unit
}

// why is the cause of the unit's end, from systemd and from the unit's own status.
func why(d units.Description) string {
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
func judgeBoot(d units.Description) (Finding, bool) {
	switch {
	case d.Unit == targetUnit && d.FileState != "enabled":
		return warn(d.Unit, "does not start at boot ("+d.FileState+")", "systemctl enable codex.target"), true
	case strings.HasSuffix(d.Unit, ".service") && len(d.WantedBy) == 0:
		return warn(d.Unit, "does not start at boot", "systemctl enable "+d.Unit), true
	}
	return Finding{}, false
}
