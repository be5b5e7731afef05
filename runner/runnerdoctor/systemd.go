package runnerdoctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"codex-proxy/internal/checkup"
	"codex-proxy/runner/paths"
	"codex-proxy/units"
	"codex-proxy/units/survey"
)

func checkSystemd(_ context.Context, s *facts) []checkup.Finding {
	if s.busErr != nil {
		return checkup.Failure("", s.busErr.Error(),
			"systemctl status dbus; apt install dbus, or dnf install dbus").Alone()
	}
	if f, bad := survey.JudgeVersion(s.version, "codex-runner"); bad {
		return f.Alone()
	}
	var found []checkup.Finding
	for _, node := range []string{"reg", "dir"} {
		path := "/run/systemd/inaccessible/" + node
		if _, err := os.Lstat(s.Path(path)); errors.Is(err, fs.ErrNotExist) {
			found = append(found, checkup.Failure(path, "is not there: units of sessions need it to hide files, and do not start",
				"systemctl daemon-reexec, by which systemd makes it, or else a reboot"))
		}
	}
	return checkup.OrPassed(found, "version "+s.version)
}

// checkUnits checks that the units are installed, and that the socket and the service are up now and after a boot.
func checkUnits(ctx context.Context, s *facts) []checkup.Finding {
	if s.busErr != nil {
		return checkup.Unchecked("", "systemd does not answer", "systemd").Alone()
	}
	names := append([]string{socketUnit, serviceUnit, sliceUnit}, templates()...)
	var found []checkup.Finding
	for _, name := range names {
		d, err := s.Systemd.Describe(ctx, name)
		if err != nil {
			found = append(found, checkup.Failure(name, "not checked: "+err.Error(), "systemctl status "+name))
			continue
		}
		found = append(found, judge(d)...)
	}
	return checkup.OrPassed(found, fmt.Sprintf("%d are installed; the socket and the service are up, and start at boot",
		len(names)))
}

func judge(d units.Description) []checkup.Finding {
	if f, bad := survey.JudgeFile(d); bad {
		return f.Alone()
	}
	var found []checkup.Finding
	if d.NeedReload {
		found = append(found, checkup.Warning(d.Unit, "its files have changed, and systemd has not read them",
			"systemctl daemon-reload"))
	}
	if d.Unit != socketUnit && d.Unit != serviceUnit {
		return found
	}
	switch {
	case d.ActiveState == "failed" || strings.HasPrefix(d.SubState, "auto-restart"):
		found = append(found, checkup.Failure(d.Unit, "has failed: "+why(d),
			"journalctl -u codex-runner -n 20, and mend the cause; then "+
				"systemctl reset-failed 'codex-runner.*' && systemctl start "+socketUnit+" "+serviceUnit))
	case d.ActiveState == "inactive":
		found = append(found, checkup.Failure(d.Unit, "is stopped", "systemctl start "+socketUnit+" "+serviceUnit))
	}
	if d.FileState != "enabled" {
		found = append(found, checkup.Warning(d.Unit, "does not start at boot ("+d.FileState+")",
			"systemctl enable "+d.Unit))
	}
	return found
}

// why is the cause of a unit's end.
func why(d units.Description) string {
	if e, ran := d.LastExit(); ran {
		return e.String()
	}
	return d.Result
}

// checkPolkit checks that the daemon has the rights on units that it needs, and no more. Without root the daemon's own
// readiness answers: it has asked at its start.
func checkPolkit(ctx context.Context, s *facts) []checkup.Finding {
	switch {
	case s.busErr != nil:
		return checkup.Unchecked("", "systemd does not answer", "systemd").Alone()
	case !s.IsRoot && s.statusErr == nil:
		return checkup.Passed("", "the service may start sessions").Alone()
	case !s.IsRoot:
		return checkup.Warning("", "not checked: only root may ask polkit about other users", asRoot).Alone()
	}
	uid, err := s.UID(account)
	if err != nil {
		return checkup.Failure("", "there is no user "+account, "systemd-sysusers codex-runner.conf").Alone()
	}
	none := checkup.Failure("", "polkit is not installed: no session can start",
		"apt install polkitd, or dnf install polkit")
	for _, r := range []survey.Right{
		{Unit: paths.SessionUnit(anyID), Verb: "start", May: true},
		{Unit: paths.SessionUnit(anyID), Verb: "set-property", May: true},
		{Unit: paths.OnlineUnit(anyID), Verb: "start", May: true},
		{Unit: paths.RepositoryUnit(anyKey), Verb: "start", May: true},
		{Unit: paths.EnvironmentUnit(anyEnv), Verb: "start", May: true},
		{Unit: paths.SweepUnit("session", anyID), Verb: "start", May: true},
		{Unit: serviceUnit, Verb: "restart"}, {Unit: "dbus.service", Verb: "restart"},
	} {
		r.User = account
		if f, bad := s.AskPolkit(ctx, uid, r, none); bad {
			return f.Alone()
		}
	}
	return checkup.Passed("", "the service may start its sessions, fetches and builds, and nothing else").Alone()
}
