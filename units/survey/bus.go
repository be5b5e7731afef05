package survey

import (
	"context"
	"errors"

	"codex-proxy/internal/checkup"
	"codex-proxy/internal/paths"
	"codex-proxy/units"
)

// bus checks that this process and the daemon reach systemd over the bus.
func (w *whole) bus(context.Context) []checkup.Finding {
	switch {
	case errors.Is(w.BusErr, units.ErrNoBus):
		return checkup.Failure("", w.BusErr.Error(),
			"apt install dbus, or dnf install dbus; then systemctl start dbus.socket").Alone()
	case w.BusErr != nil:
		return checkup.Failure("", w.BusErr.Error(), "systemctl status dbus.service; journalctl -u dbus").Alone()
	}
	for _, w := range w.Report.Workers {
		if w.ActiveState == "" {
			return checkup.Failure(paths.ServiceUnit, "gets no states of "+w.Unit+" from systemd",
				"journalctl -u codex-proxy -g D-Bus").Alone()
		}
	}
	if w.ReportErr != nil {
		return checkup.Passed("", "systemd answers").Alone()
	}
	return checkup.Passed("", "systemd answers, and the daemon is connected to it").Alone()
}

// polkit checks that the proxy may reset its units, and nothing else. It changes
// no unit.
func (w *whole) polkit(ctx context.Context) []checkup.Finding {
	if w.BusErr != nil {
		return checkup.Unchecked("", "the system bus does not answer", "bus").Alone()
	}
	if !w.IsRoot {
		return []checkup.Finding{Unprivileged("", "ask polkit about other users")}
	}
	none := checkup.Warning("",
		"polkit is not installed: the proxy cannot reset the restart delay of a worker that is healthy again",
		"apt install polkitd, or dnf install polkit")
	for _, right := range each(w, func(r Room) []Right { return r.Rights }) {
		account, err := w.Account(right.User)
		if err != nil {
			return checkup.Unchecked("", "there is no user "+right.User, "users").Alone()
		}
		if f, bad := w.AskPolkit(ctx, account.UID, right, none); bad {
			return f.Alone()
		}
	}
	return checkup.Passed("",
		"codex-proxy may reset its workers, its dependencies, its remotes and itself, and nothing else").Alone()
}

// AskPolkit returns the fault of a right of a user with this number; none is the fault of a machine without polkit.
func (m Machine) AskPolkit(ctx context.Context, uid uint32, r Right, none checkup.Finding) (checkup.Finding, bool) {
	may, err := m.Systemd.MayManage(ctx, uid, r.Unit, r.Verb)
	switch {
	case errors.Is(err, units.ErrNoPolkit):
		return none, true
	case err != nil:
		return checkup.Failure("", err.Error(), "systemctl status polkit; journalctl -u polkit"), true
	case r.May && !may:
		return checkup.Failure("", r.User+" may not "+r.Verb+" "+r.Unit,
			"reinstall the package: its rule belongs into /usr/share/polkit-1/rules.d; "+
				"journalctl -u polkit names a rule that does not load"), true
	case may && !r.May:
		return checkup.Failure("", r.User+" may "+r.Verb+" "+r.Unit,
			"remove the rule in /etc/polkit-1/rules.d that allows it"), true
	}
	return checkup.Finding{}, false
}
