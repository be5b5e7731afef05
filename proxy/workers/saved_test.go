package workers_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/workers"
)

// What a pool remembers outlives its process; what the next one has counted by
// itself meanwhile is not counted twice.
func TestMemory(t *testing.T) {
	before := newRig(t, nil, named{"a", "/nowhere"}, named{"gone", "/nowhere"})
	down := unit("a", "activating", "auto-restart", "1", 0)
	down.Result, down.ExecMainCode, down.ExecMainStatus = "signal", 2, 9
	before.heard(running("a", "1", 0), down, running("a", "2", 1), running("a", "3", 2))
	raw, err := json.Marshal(before.pool.Save())
	require.NoError(t, err)
	want := before.pool.Snapshot().Workers[0]

	var memory workers.Saved
	require.NoError(t, json.Unmarshal(raw, &memory))
	after := newRig(t, nil, named{"a", "/nowhere"}, named{"new", "/nowhere"})
	after.heard(running("a", "2", 1), running("a", "3", 2))
	after.pool.Restore(memory)
	got := after.pool.Snapshot().Workers
	assert.Equal(t, uint64(2), got[0].RestartsTotal)
	assert.Equal(t, uint64(1), got[0].ConsecutiveFailures)
	require.NotNil(t, got[0].LastExit)
	assert.Equal(t, want.LastExit.Status, got[0].LastExit.Status)
	assert.True(t, want.LastExit.At.Equal(got[0].LastExit.At))
	assert.Zero(t, got[1].RestartsTotal)
}
