package workerscheck

import (
	"context"
	"fmt"
	"maps"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"codex-proxy/internal/checkup"
	"codex-proxy/internal/paths"
	"codex-proxy/internal/reach"
	"codex-proxy/units"
)

// hands checks the conditions for the sessions of the workers with [hands], and the units that keep them.
func (r *room) hands(context.Context) (found []checkup.Finding) {
	for _, w := range r.workers {
		if w.file != nil && w.file.Hands != nil {
			found = append(found, r.judgeHands(w))
		}
	}
	return checkup.OrPassed(found, "none is configured")
}

func (r *room) judgeHands(w Worker) checkup.Finding {
	subject, unit := "hands of "+w.Name, units.Hands(w.Name)
	remedy := fmt.Sprintf("the user is %s, in the group %s; give one of them the permission to read",
		units.HandsUser(w.Name), paths.WorkerUser)
	faults := w.file.Hands.Faults(handsAccount(), remedy)
	for _, key := range slices.Sorted(maps.Keys(faults)) {
		return checkup.Failure(subject, fmt.Sprintf("%s: %v", key, faults[key]),
			"mend it, or [hands] in "+w.File()+"; then systemctl daemon-reload and systemctl restart "+w.Unit())
	}
	state := r.Units[unit]
	switch {
	case r.BusErr != nil:
		return checkup.Unchecked(subject, "systemd does not answer", "bus")
	case !state.Active() && !r.Running(w.Unit()):
		return checkup.Passed(subject, "stopped, as its worker is")
	case !state.Active():
		return checkup.Failure(subject, unit+" does not run", "journalctl -u "+unit+" -n 20; systemctl daemon-reload; "+
			"systemctl restart "+w.Unit())
	}
	return checkup.Passed(subject, strings.TrimPrefix(state.StatusText, "Ready: "))
}

// handsAccount has the rights of the user of a unit of hands, which owns nothing yet; nil: they are unknown.
func handsAccount() *reach.Account {
	group, err := user.LookupGroup(paths.WorkerUser)
	if err != nil {
		return nil
	}
	gid, err := strconv.ParseUint(group.Gid, 10, 32)
	if err != nil {
		return nil
	}
	return &reach.Account{UID: units.NoUID, GID: units.NoUID, Groups: []uint32{units.NoUID, uint32(gid)}}
}
