package runnerdoctor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"codex-proxy/internal/checkup"
	"codex-proxy/runner/paths"
	"codex-proxy/units"
)

// oldestSystemd is the version in Debian 12.
const oldestSystemd = 252

func checkSystemd(_ context.Context, s *survey) []checkup.Finding {
	if s.busErr != nil {
		return []checkup.Finding{checkup.Failure("", s.busErr.Error(),
			"systemctl status dbus; apt install dbus, or dnf install dbus")}
	}
	digits := strings.IndexFunc(s.version+" ", func(r rune) bool { return r < '0' || r > '9' })
	major, err := strconv.Atoi(s.version[:digits])
	switch {
	case err != nil:
		return []checkup.Finding{checkup.Warning("", fmt.Sprintf("its version %q cannot be read", s.version),
			fmt.Sprintf("make sure that it is %d or later", oldestSystemd))}
	case major < oldestSystemd:
		return []checkup.Finding{checkup.Failure("", "version "+s.version+" is too old",
			fmt.Sprintf("codex-runner needs systemd %d or later (Debian 12)", oldestSystemd))}
	}
	return []checkup.Finding{checkup.Passed("", "version "+s.version)}
}

// checkUnits checks that the units are installed, and that the socket and the service are up now and after a boot.
func checkUnits(ctx context.Context, s *survey) []checkup.Finding {
	if s.busErr != nil {
		return []checkup.Finding{checkup.Unchecked("", "systemd does not answer", "systemd")}
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
	switch d.LoadState {
	case "loaded":
	case "not-found":
		return []checkup.Finding{checkup.Failure(d.Unit, "is not installed",
			"reinstall the package, then systemctl daemon-reload")}
	case "masked":
		return []checkup.Finding{checkup.Failure(d.Unit, "is masked: it cannot be started", "systemctl unmask "+d.Unit)}
	default:
		return []checkup.Finding{checkup.Failure(d.Unit, "systemd cannot use its file ("+d.LoadState+")",
			"systemd-analyze verify "+d.Unit)}
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
func checkPolkit(ctx context.Context, s *survey) []checkup.Finding {
	switch {
	case s.busErr != nil:
		return []checkup.Finding{checkup.Unchecked("", "systemd does not answer", "systemd")}
	case !s.IsRoot && s.statusErr == nil:
		return []checkup.Finding{checkup.Passed("", "the service may start sessions")}
	case !s.IsRoot:
		return []checkup.Finding{checkup.Warning("", "not checked: only root may ask polkit about other users", asRoot)}
	}
	uid, err := s.UID(account)
	if err != nil {
		return []checkup.Finding{checkup.Failure("", "there is no user "+account, "systemd-sysusers codex-runner.conf")}
	}
	for _, q := range []struct {
		unit, verb string
		may        bool
	}{
		{paths.SessionUnit(anyID), "start", true}, {paths.SessionUnit(anyID), "set-property", true},
		{paths.OnlineUnit(anyID), "start", true}, {paths.RepositoryUnit(anyKey), "start", true},
		{paths.EnvironmentUnit(anyEnv), "start", true}, {paths.SweepUnit("session", anyID), "start", true},
		{serviceUnit, "restart", false}, {"dbus.service", "restart", false},
	} {
		may, err := s.Systemd.MayManage(ctx, uid, q.unit, q.verb)
		switch {
		case errors.Is(err, units.ErrNoPolkit):
			return []checkup.Finding{checkup.Failure("", "polkit is not installed: no session can start",
				"apt install polkitd, or dnf install polkit")}
		case err != nil:
			return []checkup.Finding{checkup.Failure("", err.Error(), "systemctl status polkit; journalctl -u polkit")}
		case q.may && !may:
			return []checkup.Finding{checkup.Failure("", account+" may not "+q.verb+" "+q.unit,
				"reinstall the package: its rule belongs into "+
					"/usr/share/polkit-1/rules.d; journalctl -u polkit names a rule that does not load")}
		case may && !q.may:
			return []checkup.Finding{checkup.Failure("", account+" may "+q.verb+" "+q.unit,
				"remove the rule in /etc/polkit-1/rules.d that allows it")}
		}
	}
	return []checkup.Finding{checkup.Passed("",
		"the service may start its sessions, fetches and builds, and nothing else")}
}
