package workers

import (
	"time"

	"codex-proxy/probes"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/dispatch"
)

// A test plays systemd and the shim, and may be late: nothing is done again or given up meanwhile.
func init() { restBound, minKickPause, annotateBound = time.Minute, time.Minute, time.Minute }

// Pick is Acquire without the queue.
func (p *Pool) Pick(model string) (*dispatch.Lease, error) {
	return p.picker.Pick(dispatch.Ask{Model: model})
}

// Published are the workers of Snapshot. OnChange may call it anywhere; some of its callers have the queue.
func (p *Pool) Published() []probes.Worker {
	var all []probes.Worker
	for _, w := range p.roster {
		all = append(all, w.snapshot(false))
	}
	return all
}

// PickFor is Acquire without a wait.
func (p *Pool) PickFor(a dispatch.Ask) (lease *dispatch.Lease, err error) {
	p.Dispatcher.Inflight(func() int { // under the lock of the queue
		lease, err = p.picker.Pick(a)
		return 0
	})
	return lease, err
}

// SetClock sets the time at which the pool chooses by quota.
func (p *Pool) SetClock(now func() time.Time) { p.picker.Now = now }

// Accounts are the accounts with a known state, also of workers that do not run.
func (p *Pool) Accounts() []accounts.Account { return accounts.Known(p.accountStore, time.Now()) }
