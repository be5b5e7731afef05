package workers_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appserver"
	"codex-proxy/probes"
	"codex-proxy/units"
	"codex-proxy/workers"
	"codex-proxy/workers/dispatch"
)

type acquired struct {
	lease *dispatch.Lease
	err   error
}

// ask makes a request and returns once it waits or is answered.
func (r *rig) ask(t *testing.T, a dispatch.Ask) <-chan acquired {
	t.Helper()
	before := r.pool.Snapshot().Queue.Depth
	ended, got := make(chan acquired, 1), make(chan struct{})
	go func() {
		lease, err := r.pool.Acquire(context.Background(), a)
		ended <- acquired{lease, err}
		close(got)
	}()
	limit := time.After(bound)
	for r.pool.Snapshot().Queue.Depth == before {
		select {
		case <-got:
			return ended
		case <-limit:
			require.FailNow(t, "neither waits nor answered")
		default:
		}
	}
	return ended
}

func (r *rig) awaitLease(t *testing.T, ended <-chan acquired) *dispatch.Lease {
	t.Helper()
	select {
	case got := <-ended:
		require.NoError(t, got.err)
		return got.lease
	case <-time.After(bound):
		require.FailNow(t, "no slot")
		return nil
	}
}

func (r *rig) waits(t *testing.T, depth int) {
	t.Helper()
	queue := r.pool.Snapshot().Queue
	assert.Equal(t, depth, queue.Depth)
	assert.Equal(t, depth > 0, queue.OldestWaitMS > 0)
	assert.Equal(t, 64, queue.Limit)
}

func TestAcquireWaitsForAFreeSlot(t *testing.T) {
	a := fake(t, models("m"))
	r := newRig(t, func(s *workers.Settings) { s.MaxInflight = 1 }, named{"a", a.path})
	r.noBus()
	r.run(t)
	r.awaitReady(t)
	first := r.awaitLease(t, r.ask(t, dispatch.Ask{Model: "m"}))
	second := r.ask(t, dispatch.Ask{Model: "m"})
	r.waits(t, 1)
	assert.Equal(t, 2, r.pool.Inflight(), "a service that stops has both to finish")
	first.Release()
	lease := r.awaitLease(t, second)
	assert.Equal(t, 1, r.pool.Inflight())
	third := r.ask(t, dispatch.Ask{Model: "m"})
	r.pool.Drain()
	assert.ErrorIs(t, (<-third).err, dispatch.ErrDraining)
	r.waits(t, 0)
	lease.Release()
	assert.Zero(t, r.pool.Inflight())
}

// During a restart, as systemd and the socket report it, a request waits until the
// worker is back.
func TestAcquireWaitsThroughARestart(t *testing.T) {
	a := fake(t, models("m"))
	r := newRig(t, nil, named{"a", a.path})
	first := r.ask(t, dispatch.Ask{Model: "m"})
	r.waits(t, 1)
	r.run(t)
	r.report(running("a", "1", 0))
	lost := r.awaitLease(t, first)
	r.lose(t, func() { a.cut(t) }, unit("a", "failed", "failed-before-auto-restart", "1", 0))
	<-lost.Conn.Done()
	again := r.ask(t, dispatch.Ask{Model: "m", Lost: lost, Avoid: []*appserver.Conn{lost.Conn}})
	r.await(t, "the lost turn still in flight", func(probes.Snapshot) bool { return r.pool.Inflight() == 1 })
	r.pool.Drain()
	assert.ErrorIs(t, (<-r.ask(t, dispatch.Ask{Model: "m"})).err, dispatch.ErrDraining)
	for _, u := range []units.State{
		unit("a", "failed", "failed-before-auto-restart", "1", 0), unit("a", "activating", "auto-restart", "1", 0),
		unit("a", "activating", "start", "2", 1),
	} {
		r.report(u)
		r.waits(t, 1)
	}
	r.report(running("a", "2", 1))
	lease := r.awaitLease(t, again)
	assert.NotSame(t, lost.Conn, lease.Conn)
	assert.Equal(t, 1, r.pool.Inflight())
	lease.Release()
	assert.Zero(t, r.pool.Inflight())
}

// No request waits for a worker that only an operator can mend; until systemd reports
// it, every request does.
func TestAcquireGivesUpWithSystemd(t *testing.T) {
	for name, final := range map[string]units.State{
		"start limit": unit("a", "failed", "failed", "1", 5),
		"failed":      unit("a", "failed", "failed", "1", 0),
		"stopped":     unit("a", "inactive", "dead", "1", 0),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil, named{"a", "/nowhere"}, named{"b", "/nowhere"})
			other := final
			other.Unit = units.Worker("b")
			r.report(unit("a", "activating", "auto-restart", "1", 0), other)
			waiting := r.ask(t, dispatch.Ask{Model: "m"})
			r.waits(t, 1)
			r.report(final)
			assert.ErrorIs(t, (<-waiting).err, dispatch.ErrNotReady)
			assert.ErrorIs(t, (<-r.ask(t, dispatch.Ask{Model: "m"})).err, dispatch.ErrNotReady)
		})
	}
	r := newRig(t, nil)
	assert.ErrorIs(t, (<-r.ask(t, dispatch.Ask{Model: "m"})).err, dispatch.ErrNotReady, "no worker at all")
}

// A model that no worker has is unknown; a request for one whose worker is away waits.
func TestAcquireKnowsWhichWorkerHasTheModel(t *testing.T) {
	a, b := fake(t, models("m1")), fake(t, models("m2"))
	r := newRig(t, nil, named{"a", a.path}, named{"b", b.path})
	r.run(t)
	r.report(running("a", "1", 0))
	r.await(t, "a ready", aReady)
	first := r.ask(t, dispatch.Ask{Model: "m2"})
	r.waits(t, 1) // b was not reported yet
	r.report(running("b", "1", 0))
	r.awaitLease(t, first).Release()

	r.lose(t, func() { b.cut(t) }, unit("b", "activating", "auto-restart", "1", 0))
	second := r.ask(t, dispatch.Ask{Model: "m2"})
	r.waits(t, 1)
	assert.ErrorIs(t, (<-r.ask(t, dispatch.Ask{Model: "m3"})).err, dispatch.ErrNoModel)
	r.report(running("b", "2", 1))
	r.awaitLease(t, second).Release()

	r.lose(t, func() { b.cut(t) }, unit("b", "failed", "failed-before-auto-restart", "2", 1))
	third := r.ask(t, dispatch.Ask{Model: "m2"})
	r.report(unit("b", "inactive", "dead", "2", 0))
	assert.ErrorIs(t, (<-third).err, dispatch.ErrNoModel, "an operator has stopped the only worker that had it")
	assert.Equal(t, probes.Ready, r.pool.Snapshot().Workers[0].Reason)
}

// A worker that fails its first starts may have any model. Only while there is such a
// worker, a request for an unknown model waits, for as long as the queue allows.
func TestAcquireWaitsForAWorkerThatNeverStarted(t *testing.T) {
	a, b := fake(t, models("m1")), fake(t, models("m2"))
	r := newRig(t, nil, named{"a", a.path}, named{"b", b.path})
	r.run(t)
	r.report(running("a", "1", 0))
	r.await(t, "a ready", aReady)
	waiting := r.ask(t, dispatch.Ask{Model: "m2"})
	unknown := r.ask(t, dispatch.Ask{Model: "m3"})
	for _, u := range []units.State{
		unit("b", "activating", "start", "1", 0), unit("b", "failed", "failed-before-auto-restart", "1", 0),
		unit("b", "activating", "auto-restart", "1", 0), unit("b", "activating", "start", "2", 1),
	} {
		r.report(u)
		r.waits(t, 2)
	}
	r.report(running("b", "2", 1))
	r.awaitLease(t, waiting).Release()
	assert.ErrorIs(t, (<-unknown).err, dispatch.ErrNoModel)
	assert.ErrorIs(t, (<-r.ask(t, dispatch.Ask{Model: "m3"})).err, dispatch.ErrNoModel)
}

func TestEstimatedWait(t *testing.T) {
	a := fake(t, models("m"))
	r := newRig(t, nil, named{"a", a.path})
	assert.Zero(t, r.pool.EstimatedWait(), "nothing is known of a pool that is not ready")
	r.noBus()
	r.run(t)
	r.awaitReady(t)
	lease := r.awaitLease(t, r.ask(t, dispatch.Ask{Model: "m"}))
	lease.Release()
	assert.Positive(t, r.pool.EstimatedWait())
}

// A request for one account waits for it, and no other request waits with it.
func TestAcquireOnNamedWorkers(t *testing.T) {
	servers := map[string]string{"a": fake(t, models("m", "only-a")).path, "b": fake(t, models("m", "only-b")).path}
	r := newRig(t, func(s *workers.Settings) { s.MaxInflight = 1 }, named{"a", servers["a"]}, named{"b", servers["b"]})
	r.noBus()
	r.run(t)
	r.awaitReady(t)
	onA := dispatch.Ask{Model: "m", Accounts: []string{"a"}, Prefer: "b"}
	first := r.awaitLease(t, r.ask(t, onA))
	assert.Equal(t, "a", first.Worker, "a preference does not lead outside")
	second := r.ask(t, onA)
	r.waits(t, 1)
	other := r.awaitLease(t, r.ask(t, dispatch.Ask{Model: "m"}))
	assert.Equal(t, "b", other.Worker, "it does not wait behind the one for a")
	other.Release()
	r.waits(t, 1)
	first.Release()
	lease := r.awaitLease(t, second)
	assert.Equal(t, "a", lease.Worker)
	lease.Release()
	assert.ErrorIs(t, (<-r.ask(t, dispatch.Ask{Model: "only-b", Accounts: []string{"a"}})).err, dispatch.ErrNoModel)
	assert.Equal(t, []string{"m", "only-a"}, r.pool.Models("a"))
	assert.True(t, r.pool.Known("only-b"))
	assert.False(t, r.pool.Known("only-b", "a"))
	assert.True(t, r.pool.Lacks("only-b", "a"))
	assert.False(t, r.pool.Lacks("only-b"))
}

// A pause keeps new turns from an account also without a rotation. Turns in flight go on.
func TestAcquireWithoutRotationRespectsAPause(t *testing.T) {
	r := newRig(t, nil, named{"a", fake(t, models("m", "only-a")).path}, named{"b", fake(t, models("m")).path})
	r.noBus()
	r.run(t)
	r.awaitReady(t)
	inFlight := r.awaitLease(t, r.ask(t, dispatch.Ask{Model: "m", Accounts: []string{"a"}}))
	require.NoError(t, r.pool.AccountStore().Pause("a", true))
	require.NoError(t, inFlight.Conn.Err())
	for range 3 {
		lease := r.awaitLease(t, r.ask(t, dispatch.Ask{Model: "m", Prefer: "a"}))
		assert.Equal(t, "b", lease.Worker)
		lease.Release()
	}
	assert.ErrorIs(t, (<-r.ask(t, dispatch.Ask{Model: "m", Accounts: []string{"a"}})).err, dispatch.ErrPaused)
	assert.ErrorIs(t, (<-r.ask(t, dispatch.Ask{Model: "only-a"})).err, dispatch.ErrPaused)
	reason := func() probes.Reason {
		reason, _ := probes.ReadinessOf(r.pool.Snapshot())
		return reason
	}
	assert.Equal(t, probes.Ready, reason())
	require.NoError(t, r.pool.AccountStore().Pause("b", true))
	assert.Equal(t, probes.Draining, reason(), "no request can be served")
	inFlight.Release()
	require.NoError(t, r.pool.AccountStore().Pause("a", false))
	assert.Equal(t, probes.Ready, reason())
	r.awaitLease(t, r.ask(t, dispatch.Ask{Model: "only-a"})).Release()
}
