package doctor

import (
	"context"
	"errors"

	"codex-proxy/units"
)

// checkBus checks that this process and the daemon reach systemd over the bus.
func checkBus(_ context.Context, s *survey) []Finding {
	switch {
	case errors.Is(s.busErr, units.ErrNoBus):
		return []Finding{fail("", s.busErr.Error(),
			"apt install dbus, or dnf install dbus; then systemctl start dbus.socket")}
	case s.busErr != nil:
		return []Finding{fail("", s.busErr.Error(), "systemctl status dbus.service; journalctl -u dbus")}
	}
	for _, w := range s.report.Workers {
		if w.ActiveState == "" {
			return []Finding{fail(proxyUnit, "gets no states of "+w.Unit+" from systemd",
				"journalctl -u codex-proxy -g D-Bus")}
		}
	}
	if s.reportErr != nil {
		return []Finding{ok("", "systemd answers")}
	}
	return []Finding{ok("", "systemd answers, and the daemon is connected to it")}
}

// checkPolkit checks that the proxy may reset its units, and nothing else. It changes
// no unit.
func checkPolkit(ctx context.Context, s *survey) []Finding {
	if s.busErr != nil {
		return []Finding{unchecked("", "the system bus does not answer", "bus")}
	}
	if !s.IsRoot {
		return []Finding{unprivileged("", "ask polkit about other users")}
	}
	worker := units.Worker("default")
	if len(s.workers) > 0 {
		worker = s.workers[0].unit()
	}
	for _, q := range []struct {
		user, unit, verb string
		may              bool
	}{
		{proxyUser, worker, "reset-failed", true}, {proxyUser, proxyUnit, "reset-failed", true},
		{proxyUser, units.Dependency("x"), "reset-failed", true}, {proxyUser, units.Dependency("x"), "start", false},
		{proxyUser, units.Remote("x"), "reset-failed", true}, {proxyUser, units.Remote("x"), "start", false},
		{proxyUser, worker, "restart", false}, {workerUser, worker, "restart", false},
		{proxyUser, "dbus.service", "restart", false}, {workerUser, worker, "reset-failed", false},
	} {
		if f, bad := s.askPolkit(ctx, q.user, q.unit, q.verb, q.may); bad {
			return []Finding{f}
		}
	}
	return []Finding{ok("",
		"codex-proxy may reset its workers, its dependencies, its remotes and itself, and nothing else")}
}

func (s *survey) askPolkit(ctx context.Context, user, unit, verb string, want bool) (Finding, bool) {
	account, err := s.Account(user)
	if err != nil {
		return unchecked("", "there is no user "+user, "users"), true
	}
	may, err := s.Systemd.MayManage(ctx, account.UID, unit, verb)
	switch {
	case errors.Is(err, units.ErrNoPolkit):
		return warn("", "polkit is not installed: the proxy cannot reset the restart delay of a worker that is "+
			"healthy again",
			"apt install polkitd, or dnf install polkit"), true
	case err != nil:
		return fail("", err.Error(), "systemctl status polkit; journalctl -u polkit"), true
	case want && !may:
		return fail("", user+" may not "+verb+" "+unit,
			"reinstall the package: its rule belongs into /usr/share/polkit-1/rules.d; "+
				"journalctl -u polkit names a rule that does not load"), true
	case may && !want:
		return fail("", user+" may "+verb+" "+unit, "remove the rule in /etc/polkit-1/rules.d that allows it"), true
	}
	return Finding{}, false
}
