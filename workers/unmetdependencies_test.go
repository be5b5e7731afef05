package workers_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/probes"
	"codex-proxy/workers"
)

func TestUnmetWorkerTakesNoNewTurns(t *testing.T) {
	r := ready(t, map[string]*appservertest.Server{"a": models("m"), "b": models("m")})
	inFlight, err := r.pool.Pick("m")
	require.NoError(t, err)
	unmet := workers.Unmet{Names: []string{"db"}, Reason: probes.DependencyBackingOff}
	require.NoError(t, r.pool.SetUnmet("a", unmet))
	snap := r.pool.Snapshot()
	assert.Equal(t, probes.DependencyNotReady, snap.Workers[0].Reason)
	assert.Equal(t, []string{"db"}, snap.Workers[0].Unmet)
	assert.Equal(t, probes.Ready, snap.Workers[1].Reason)
	for range 3 {
		lease, err := r.pool.Pick("m")
		require.NoError(t, err)
		defer lease.Release()
		assert.Equal(t, "b", lease.Worker)
	}
	inFlight.Release()

	require.NoError(t, r.pool.SetUnmet("a", workers.Unmet{}))
	assert.Equal(t, probes.Ready, r.pool.Snapshot().Workers[0].Reason)
	lease, err := r.pool.Pick("m")
	require.NoError(t, err)
	defer lease.Release()
	assert.Equal(t, "a", lease.Worker)
	assert.ErrorIs(t, r.pool.SetUnmet("c", unmet), workers.ErrUnknown)
}
