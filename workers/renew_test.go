package workers_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/probes"
	"codex-proxy/workers"
	"codex-proxy/workers/dispatch"
)

// A worker that is to start again takes no new turns, and ends when it has none. Requests wait for its next run, and
// nothing connects meanwhile. The restart is no failure.
func TestRenew(t *testing.T) {
	r, a, _ := restingRig(t)
	require.NoError(t, r.pool.DrainWorker("b"))
	require.NoError(t, r.pool.SetRole("a", workers.Fixed))
	lease := r.awaitLease(t, r.ask(t, dispatch.Ask{Model: "demo"}))
	require.NoError(t, workers.RenewalsOf(r.pool).DrainForRenewal("a", true))
	assert.Equal(t, probes.Draining, r.pool.Snapshot().Workers[0].Reason)
	require.ErrorIs(t, workers.RenewalsOf(r.pool).Renew("a", ""), workers.ErrBusyOrGone, "its turn runs")
	leased := r.ask(t, dispatch.Ask{Model: "demo"})
	lease.Release()
	require.NoError(t, workers.RenewalsOf(r.pool).Renew("a", "0.172.0 is in use"))
	assert.Equal(t, "codex-proxy annotations; renew 0.172.0 is in use", a.awaitLines(t))
	r.report(unit("a", "deactivating", "stop-sigterm", "1", 0))
	r.settled(t)
	r.report(unit("a", "activating", "auto-restart", "1", 1))
	r.awaitReason(t, 0, probes.BackingOff)
	r.settled(t)
	a.idle(t)
	r.report(running("a", "2", 1))
	lease = r.awaitLease(t, leased)
	assert.Equal(t, "a", lease.Worker)
	lease.Release()
	assert.Zero(t, r.pool.Snapshot().Workers[0].ConsecutiveFailures)
	require.ErrorIs(t, workers.RenewalsOf(r.pool).Renew("b", ""), workers.ErrBusyOrGone, "it is stopped")
	require.ErrorIs(t, workers.RenewalsOf(r.pool).Renew("x", ""), workers.ErrUnknown)
	a.awaitAnnotations(t).Close()
}

func TestDrainForRenewalIsUndone(t *testing.T) {
	r, _, _ := restingRig(t)
	require.NoError(t, workers.RenewalsOf(r.pool).DrainForRenewal("a", true))
	r.awaitReason(t, 0, probes.Draining)
	require.NoError(t, workers.RenewalsOf(r.pool).DrainForRenewal("a", false))
	r.awaitReason(t, 0, probes.Ready)
	require.ErrorIs(t, workers.RenewalsOf(r.pool).DrainForRenewal("x", true), workers.ErrUnknown)
}
