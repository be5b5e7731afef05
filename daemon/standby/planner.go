// Package standby starts the workers that the policy of the accounts needs, and stops the others.
package standby

import (
	"context"
	"sync"
	"time"

	"codex-proxy/daemon/reload"
	"codex-proxy/internal/nudge"
	"codex-proxy/workers"
	"codex-proxy/workers/accounts"
)

// planEvery is the longest time between two plans, planPause the shortest. A quota changes
// with most turns, and the plan with few of them: lookEvery is how often the planner looks
// for such a change.
const (
	planEvery = 10 * time.Second
	lookEvery = time.Second
	planPause = 50 * time.Millisecond
)

// Planner has the workers started that the policy needs, and stops the others. Only the
// process that serves runs it.
type Planner struct {
	policy       accounts.Policy
	accountStore *accounts.Store
	pool         *workers.Pool
	predecessor  *reload.Predecessor
	changed      nudge.Nudge // workers may have changed

	mu     sync.Mutex
	steps  []accounts.Step
	memory map[string]remembered
}

// New returns a planner for the accounts of the store, whose workers the pool has. changed has a token when workers may
// have changed. Before the first plan, a stopped worker is no outage.
func New(store *accounts.Store, pool *workers.Pool, predecessor *reload.Predecessor, changed nudge.Nudge) *Planner {
	p := &Planner{
		policy: store.Policy(), accountStore: store, pool: pool, predecessor: predecessor, changed: changed,
		memory: map[string]remembered{},
	}
	p.assign(workers.Spare)
	return p
}

// remembered is the planner's state of one account from its earlier plans.
type remembered struct {
	neededAt  time.Time // a plan last had a need for the worker
	resumedAt time.Time // an operator ended a pause
	paused    bool
}

// Run carries the plan out until ctx ends. Without `warm` every worker is as systemd and
// operators have it.
func (p *Planner) Run(ctx context.Context) error {
	if !p.active() {
		return nil
	}
	defer p.assign(workers.Spare) // a request that still waits may start a worker
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		revision := p.accountStore.Revision()
		due := p.carryOut(time.Now())
		select {
		case <-time.After(planPause):
		case <-ctx.Done():
			return nil
		}
		for again := false; !again; {
			select {
			case <-p.changed:
				again = true
			case now := <-tick.C:
				again = !now.Before(due) || p.accountStore.Revision() != revision
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// assign gives all workers the role, if there is a plan.
func (p *Planner) assign(role workers.Role) {
	for _, name := range p.pool.Names() {
		if p.active() {
			_ = p.pool.SetRole(name, role) // it is the pool's own name
		}
	}
}

func (p *Planner) active() bool { return p.policy.On() && p.policy.Warm > 0 }

// Plan is the latest plan, for operators.
func (p *Planner) Plan() []accounts.Step {
	if !p.active() {
		return accounts.Plan(p.policy, p.accountStore.Views(time.Now()), p.pool.Units(time.Now()), time.Now())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.steps
}

// carryOut makes a plan and carries it out. It returns when the next one is due if nothing
// changes.
func (p *Planner) carryOut(now time.Time) (due time.Time) {
	due = now.Add(planEvery)
	views := p.accountStore.Views(now)
	units := p.pool.Units(now)
	p.recall(views, units, now)
	steps := accounts.Plan(p.policy, views, units, now)
	p.remember(steps, now)
	for i, s := range steps {
		role := workers.Spare
		switch {
		case s.Need:
			role = workers.Needed
		case views[i].Paused:
			role = workers.Fixed
		}
		_ = p.pool.SetRole(s.Name, role) // accounts are the pool's workers
		if s.StopAt.After(now) && s.StopAt.Before(due) {
			due = s.StopAt
		}
		if s.Stop && p.predecessor.Running() == nil {
			_ = p.pool.Rest(s.Name, s.Why) // a turn may have begun since
		}
	}
	return due
}

// recall adds to the units the findings of earlier plans, and since when operators have
// ended a pause.
func (p *Planner) recall(views []accounts.View, units []accounts.Unit, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range views {
		m, known := p.memory[v.Name]
		if known && m.paused && !v.Paused {
			m.resumedAt = now
		}
		m.paused = v.Paused
		p.memory[v.Name] = m
	}
	for i := range units {
		m := p.memory[units[i].Name]
		units[i].NeededAt, units[i].AskedAt = m.neededAt, m.resumedAt
	}
}

func (p *Planner) remember(steps []accounts.Step, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.steps = steps
	for _, s := range steps {
		if m := p.memory[s.Name]; s.Need {
			m.neededAt = now
			p.memory[s.Name] = m
		}
	}
}
