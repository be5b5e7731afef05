package brokercheck

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"codex-proxy/broker/brokerstate"
	"codex-proxy/internal/checkup"
	"codex-proxy/internal/paths"
	"codex-proxy/units"
	"codex-proxy/workers/sharing"
)

// sharing checks that the units are made of `processes` in the settings of the service.
func (r *room) sharing() (found []checkup.Finding) {
	switch {
	case r.fault == nil && r.wanted != nil && len(r.wanted)+len(r.made) == 0:
		found = checkup.Warning("processes", "config.toml sets it, and no accounts share a codex",
			"give accounts files with network = \"model\", no [provider] and the same settings, more than processes "+
				"in number; or set processes = \"all\"").Alone()
	case r.fault == nil && !maps.Equal(r.made, r.wanted):
		found = checkup.Failure("processes",
			"config.toml, a worker's file, or which worker runs, has changed: other accounts are to share a codex",
			"systemctl daemon-reload; systemctl restart 'codex-worker@*.service'; systemctl start codex.target; "+
				"systemctl reload codex-proxy").Alone()
	}
	for _, account := range slices.Sorted(maps.Keys(r.made)) {
		unit, host := units.Worker(account), units.Worker(r.made[account])
		if r.Running(unit) && r.Running(host) { // else it is the only codex of the account
			found = append(found, checkup.Warning("account "+account, "is served by "+host+
				", and the worker of its own still runs", "systemctl stop "+unit))
		}
	}
	return found
}

// runs reports whether the worker runs. While the codex of several accounts is stopped, the one that is to serve does.
func (r *room) runs(name string) bool {
	runs := sharing.In(r.Path(paths.WorkerRuntimeDirs), r.Path(paths.BrokerStates))
	served := r.made.Served(name)
	return runs(name) || len(served) > 0 && !slices.ContainsFunc(served, runs)
}

// serves checks that a broker has started with all accounts that its worker serves.
func (r *room) serves(b broker, passed string) checkup.Finding {
	if len(b.served) == 0 {
		return checkup.Passed(b.subject(), passed)
	}
	state, err := brokerstate.Read(r.Path(filepath.Join(paths.BrokerStates, b.name)))
	if err != nil {
		return checkup.Failure(b.subject(), "its state cannot be read: "+err.Error(),
			"systemctl restart "+units.Worker(b.name))
	}
	for _, account := range b.served {
		if !slices.Contains(state.Accounts, account) {
			return checkup.Failure(b.subject(), "does not serve the account "+account+" yet",
				"systemctl restart "+units.Worker(b.name))
		}
	}
	return checkup.Passed(b.subject(), fmt.Sprintf("%s, for %s, too", passed, strings.Join(b.served, ", ")))
}
