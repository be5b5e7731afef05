package workers_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/probes"
	"codex-proxy/workers"
	"codex-proxy/workers/dispatch"
)

func TestDrainedWorkerTakesNoNewTurns(t *testing.T) {
	r := ready(t, map[string]*appservertest.Server{"a": models("m"), "b": models("m")})
	require.NoError(t, r.pool.DrainWorker("a"))
	snap := r.pool.Snapshot()
	assert.Equal(t, probes.Draining, snap.Workers[0].Reason)
	assert.True(t, snap.Workers[0].Drained)
	assert.Equal(t, probes.Ready, snap.Workers[1].Reason)
	assert.False(t, snap.Workers[1].Drained)
	for range 4 {
		lease, err := r.pool.Pick("m")
		require.NoError(t, err)
		defer lease.Release()
		assert.Equal(t, "b", lease.Worker)
	}
	_, err := r.pool.Pick("m")
	assert.ErrorIs(t, err, dispatch.ErrBusy)

	require.NoError(t, r.pool.UndrainWorker("a"))
	lease, err := r.pool.Pick("m")
	require.NoError(t, err)
	defer lease.Release()
	assert.Equal(t, "a", lease.Worker)
	assert.False(t, r.pool.Snapshot().Workers[0].Drained)

	assert.Equal(t, 1, strings.Count(r.log.String(), `msg="worker drained"`))
	assert.Equal(t, 1, strings.Count(r.log.String(), `msg="worker undrained"`))
}

func TestDrainOfAnUnknownWorker(t *testing.T) {
	r := newRig(t, nil, named{"a", "/nowhere"}, named{"b", "/nowhere"})
	err := r.pool.DrainWorker("c")
	assert.ErrorIs(t, err, workers.ErrUnknown)
	assert.EqualError(t, err, `no such worker: "c"; there are a, b`)
}

// A pool can start drained, and a drain outlives every restart of the worker.
func TestOperatorsDrainOutlivesARestart(t *testing.T) {
	r := newRig(t, nil, named{"a", fake(t, models("m")).path})
	require.NoError(t, r.pool.DrainWorker("a"))
	r.run(t)
	connected := func(s probes.Snapshot) bool { return s.Workers[0].Handshake != nil }
	r.report(running("a", "1", 0))
	r.await(t, "connected", connected)
	assert.Equal(t, probes.Draining, r.pool.Snapshot().Workers[0].Reason)
	r.report(unit("a", "inactive", "dead", "1", 0), running("a", "2", 0))
	r.await(t, "connected", connected)
	assert.Equal(t, probes.Draining, r.pool.Snapshot().Workers[0].Reason)
}

// The drain of a stop ends with the run that is stopped, also when systemd's report
// of the stop itself was missed.
func TestDrainOfAStopEndsWithTheNextStart(t *testing.T) {
	r := newRig(t, nil, named{"a", fake(t, models("m")).path})
	r.run(t)
	r.report(running("a", "1", 0))
	r.awaitReady(t)
	require.NoError(t, r.pool.DrainForStop("a", "1"))
	snap := r.pool.Snapshot()
	assert.Equal(t, probes.Draining, snap.Workers[0].Reason)
	assert.False(t, snap.Workers[0].Drained, "no operator did this: the next process gets the stop from systemd")
	_, err := r.pool.Pick("m")
	assert.ErrorIs(t, err, dispatch.ErrNotReady)
	r.report(running("a", "2", 0))
	r.awaitReady(t)

	require.NoError(t, r.pool.DrainForStop("a", "1"))
	assert.Equal(t, probes.Ready, r.pool.Snapshot().Workers[0].Reason, "a stop of an earlier run is over")
}

func TestAwaitIdle(t *testing.T) {
	r := ready(t, map[string]*appservertest.Server{"a": models("m")})
	lease, err := r.pool.Pick("m")
	require.NoError(t, err)
	require.NoError(t, r.pool.DrainWorker("a"))
	ctx, cancel := context.WithCancel(context.Background())
	waited := make(chan error)
	go func() { waited <- r.pool.AwaitIdle(ctx, "a") }()
	cancel()
	assert.ErrorIs(t, <-waited, context.Canceled)

	go func() { waited <- r.pool.AwaitIdle(context.Background(), "a") }()
	lease.Release()
	assert.NoError(t, <-waited)
	assert.True(t, errors.Is(r.pool.AwaitIdle(context.Background(), "x"), workers.ErrUnknown))
}
