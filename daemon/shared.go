package daemon

import (
	"path/filepath"
	"slices"

	"codex-proxy/broker/brokerstate"
	"codex-proxy/daemon/follow"
	"codex-proxy/internal/paths"
	"codex-proxy/probes"
	"codex-proxy/workers"
	"codex-proxy/workers/sharing"
)

// served are the accounts that the running broker of a worker has, if they are several.
func served(worker string) []string {
	state, err := brokerstate.Read(filepath.Join(paths.BrokerStates, worker))
	if err != nil { // it has none, or starts
		return nil
	}
	return state.Accounts
}

// codexes gives the follower the worker that has run a turn.
type codexes struct {
	*follow.Follower
	hosts sharing.Hosts
	pool  *workers.Pool
}

// run is one run of the codex of a worker.
type run struct{ worker, invocation string }

// Ended implements turn.Codexes. The end of a codex is one for all accounts that it serves.
func (c codexes) Ended(account string, request int64, fault string, crash any) {
	host := c.hosts.Of(account)
	if crash != nil && len(c.hosts.Served(host)) > 0 {
		all := c.pool.Snapshot().Workers
		i := slices.IndexFunc(all, func(w probes.Worker) bool { return w.Name == account })
		crash = run{host, all[i].InvocationID}
	}
	c.Follower.Ended(host, request, fault, crash)
}

// OnProbation implements turn.Codexes.
func (c codexes) OnProbation(account string) bool { return c.Follower.OnProbation(c.hosts.Of(account)) }
