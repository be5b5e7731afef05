package standby

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/daemon/reload"
	"codex-proxy/internal/nudge"
	"codex-proxy/probes"
	"codex-proxy/units"
	"codex-proxy/workers"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/dispatch"
)

// newTestPlanner has the accounts a, b and c, whose workers are stopped units.
func newTestPlanner(p accounts.Policy) *Planner {
	names := []string{"a", "b", "c"}
	p.Order = names
	store := accounts.NewStore(p, names, func() {})
	settings := workers.Settings{
		MaxInflight: 1, HandshakeTimeout: time.Second, ResetAfter: time.Second, OnChange: func() {},
		Logger: slog.New(slog.DiscardHandler), AccountStore: store,
	}
	var all []*workers.Worker
	for _, name := range names {
		all = append(all, workers.New(name, "/run/no-such-directory/"+name, settings))
	}
	queue := dispatch.Queue{Limit: 1, Timeout: time.Second, ReadyTimeout: time.Second}
	pool := workers.NewPool(all, queue, func() {})
	for _, name := range names {
		pool.UnitChanged(units.State{
			Unit: units.Worker(name), LoadState: "loaded", ActiveState: "inactive", SubState: "dead", Result: "success",
		})
	}
	pool.BusChanged(true, nil)
	started := make(chan struct{})
	close(started)
	return New(store, pool, reload.NewPredecessor(nil, started), nudge.New())
}

func (p *Planner) reasons() (all []probes.Reason) {
	for _, w := range p.pool.Snapshot().Workers {
		all = append(all, w.Reason)
	}
	return all
}

func (p *Planner) needed() (names []string) {
	for _, s := range p.Plan() {
		if s.Need {
			names = append(names, s.Name)
		}
	}
	return names
}

// A stopped worker is a standby, unless an operator has paused its account.
func TestPlanner(t *testing.T) {
	p := newTestPlanner(accounts.Policy{Rotation: accounts.Ordered, Warm: 1, IdleStop: time.Minute})
	now := time.Now()
	require.NoError(t, p.accountStore.Pause("c", true))
	p.carryOut(now)
	assert.Equal(t, []probes.Reason{probes.Standby, probes.Standby, probes.Stopped}, p.reasons())
	assert.Equal(t, []string{"a"}, p.needed())
	require.NoError(t, p.accountStore.Pause("c", false))
	p.carryOut(now)
	assert.Equal(t, []string{"a", "c"}, p.needed(), "it was resumed")
	assert.Equal(t, probes.Standby, p.reasons()[2])
	require.NoError(t, p.accountStore.Switch("b"))
	p.carryOut(now.Add(time.Second))
	assert.Equal(t, []string{"b", "c"}, p.needed())
	p.carryOut(now.Add(2 * time.Minute))
	assert.Equal(t, []string{"b"}, p.needed())
}

// Without `warm`, and with the rotation off, systemd and operators alone start and stop
// workers; the plan still names the next account.
func TestPlannerWithoutWarm(t *testing.T) {
	for _, policy := range []accounts.Policy{
		{Rotation: accounts.Ordered, IdleStop: time.Minute}, {Rotation: accounts.Off, Warm: 1, IdleStop: time.Minute},
	} {
		p := newTestPlanner(policy)
		p.assign(workers.Spare)
		require.NoError(t, p.Run(t.Context()), "it has nothing to do")
		assert.Equal(t, []probes.Reason{probes.Stopped, probes.Stopped, probes.Stopped}, p.reasons())
		assert.Empty(t, p.needed())
		assert.Equal(t, policy.On(), p.Plan()[1].Next)
	}
}

// A change has a plan made soon. After the end, only requests start workers.
func TestPlannerRuns(t *testing.T) {
	p := newTestPlanner(accounts.Policy{Rotation: accounts.Ordered, Warm: 1, IdleStop: time.Minute})
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- p.Run(ctx) }()
	require.Eventually(t, func() bool { return len(p.needed()) == 1 }, time.Minute, time.Millisecond)
	require.NoError(t, p.accountStore.Switch("b"))
	p.changed.Touch()
	p.changed.Touch() // it does not block
	require.Eventually(t, func() bool { return p.needed()[0] == "b" }, time.Minute, time.Millisecond)
	cancel()
	require.NoError(t, <-ran)
	assert.Equal(t, probes.Standby, p.reasons()[1])
}
