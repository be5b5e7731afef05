package workers

import (
	"time"

	"codex-proxy/probes"
)

// A test plays systemd and the shim, and may be late: nothing is done again or given up meanwhile.
func init() { restBound, minKickPause, annotateBound = time.Minute, time.Minute, time.Minute }

// Pick is Acquire without the queue.
func (p *Pool) Pick(model string) (*Lease, error) { return p.pick(Ask{Model: model}) }

// Published are the workers of Snapshot. OnChange may call it anywhere; some of its callers have the queue.
func (p *Pool) Published() []probes.Worker {
	var all []probes.Worker
	for _, w := range p.workers {
		all = append(all, w.snapshot(false))
	}
	return all
}

// SetQueueTimeout is for later requests.
func (p *Pool) SetQueueTimeout(d time.Duration) { p.queue.Timeout = d }

// PickFor is Acquire without a wait.
func (p *Pool) PickFor(a Ask) (*Lease, error) {
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	return p.pick(a)
}

// SetClock sets the time at which the pool chooses by quota.
func (p *Pool) SetClock(now func() time.Time) {
	if p.rotation != nil {
		p.rotation.now = now
	}
}
