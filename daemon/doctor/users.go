package doctor

import (
	"context"
	"fmt"
	"slices"

	"codex-proxy/internal/reach"
	"codex-proxy/units"
)

// checkUsers checks that the proxy and each worker run as users of their own.
func checkUsers(_ context.Context, s *survey) []Finding {
	var found []Finding
	accounts := map[string]reach.Account{}
	for _, name := range []string{proxyUser, workerUser} {
		a, err := s.Account(name)
		switch {
		case err != nil:
			found = append(found, fail(name, "there is no such user ("+err.Error()+")",
				"systemd-sysusers codex-proxy.conf"))
		case a.UID == 0:
			found = append(found, fail(name, "is root", "give it a user id of its own"))
		}
		accounts[name] = a
	}
	if len(found) == 0 {
		found = apart(accounts[proxyUser], accounts[workerUser])
	}
	found = append(found, s.runsAs(proxyUnit, proxyUser)...)
	for _, w := range s.workers {
		found = append(found, s.runsAs(w.unit(), units.WorkerUser(w.name))...)
	}
	return orOK(found, fmt.Sprintf("%s, %s and each worker are users of their own", proxyUser, workerUser))
}

// apart checks that a command which codex runs for a client reaches neither the proxy
// nor the socket of another worker.
func apart(proxy, worker reach.Account) []Finding {
	if proxy.UID == worker.UID {
		return []Finding{fail(workerUser, "has the user id of "+proxyUser, "give it a user id of its own")}
	}
	if slices.Contains(worker.Groups, proxy.GID) {
		return []Finding{fail(workerUser, "is in the group of "+proxyUser+": what codex runs could use every worker",
			fmt.Sprintf("gpasswd --delete %s %s", workerUser, proxyUser))}
	}
	return nil
}

func (s *survey) runsAs(unit, user string) []Finding {
	if d, known := s.units[unit]; known && d.LoadState == "loaded" && d.User != user {
		return []Finding{fail(unit, fmt.Sprintf("runs as %q, not as %s", d.User, user),
			"take User= out of the drop-in that systemctl cat "+unit+" shows, then systemctl daemon-reload")}
	}
	return nil
}
