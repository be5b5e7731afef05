package survey

import (
	"context"
	"fmt"
	"slices"

	"codex-proxy/internal/checkup"
	"codex-proxy/internal/paths"
	"codex-proxy/internal/reach"
)

// users checks that the proxy and each worker run as users of their own.
func (w *whole) users(context.Context) []checkup.Finding {
	var found []checkup.Finding
	accounts := map[string]reach.Account{}
	for _, name := range []string{paths.User, paths.WorkerUser} {
		a, err := w.Account(name)
		switch {
		case err != nil:
			found = append(found, checkup.Failure(name, "there is no such user ("+err.Error()+")",
				"systemd-sysusers codex-proxy.conf"))
		case a.UID == 0:
			found = append(found, checkup.Failure(name, "is root", "give it a user id of its own"))
		}
		accounts[name] = a
	}
	if len(found) == 0 {
		found = apart(accounts[paths.User], accounts[paths.WorkerUser])
	}
	for _, u := range each(w, func(r Room) []Unit { return r.Units }) {
		found = append(found, w.runsAs(u)...)
	}
	return checkup.OrPassed(found, fmt.Sprintf("%s, %s and each worker are users of their own", paths.User,
		paths.WorkerUser))
}

// apart checks that a command which codex runs for a client reaches neither the proxy
// nor the socket of another worker.
func apart(proxy, worker reach.Account) []checkup.Finding {
	if proxy.UID == worker.UID {
		return checkup.Failure(paths.WorkerUser, "has the user id of "+paths.User,
			"give it a user id of its own").Alone()
	}
	if slices.Contains(worker.Groups, proxy.GID) {
		return checkup.Failure(paths.WorkerUser,
			"is in the group of "+paths.User+": what codex runs could use every worker",
			fmt.Sprintf("gpasswd --delete %s %s", paths.WorkerUser, paths.User)).Alone()
	}
	return nil
}

func (w *whole) runsAs(u Unit) []checkup.Finding {
	if d := w.Units[u.Name]; u.User != "" && d.LoadState == "loaded" && d.User != u.User {
		return checkup.Failure(u.Name, fmt.Sprintf("runs as %q, not as %s", d.User, u.User),
			"take User= out of the drop-in that systemctl cat "+u.Name+" shows, then systemctl daemon-reload").Alone()
	}
	return nil
}
