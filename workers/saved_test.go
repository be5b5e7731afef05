package workers_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/workers"
)

// The counters of a pool outlive its process; the events that the next process has
// counted meanwhile are not counted twice.
func TestSaved(t *testing.T) {
	before := newRig(t, nil, named{"a", "/nowhere"}, named{"gone", "/nowhere"})
	down := unit("a", "activating", "auto-restart", "1", 0)
	down.Result, down.ExecMainCode, down.ExecMainStatus = "signal", 2, 9
	before.report(running("a", "1", 0), down, running("a", "2", 1), running("a", "3", 2))
	raw, err := json.Marshal(before.pool.Save())
	require.NoError(t, err)
	want := before.pool.Snapshot().Workers[0]

	var saved workers.Saved
	require.NoError(t, json.Unmarshal(raw, &saved))
	after := newRig(t, nil, named{"a", "/nowhere"}, named{"new", "/nowhere"})
	after.report(running("a", "2", 1), running("a", "3", 2))
	after.pool.Restore(saved)
	got := after.pool.Snapshot().Workers
	assert.Equal(t, uint64(2), got[0].RestartsTotal)
	assert.Equal(t, uint64(1), got[0].ConsecutiveFailures)
	require.NotNil(t, got[0].LastExit)
	assert.Equal(t, want.LastExit.Status, got[0].LastExit.Status)
	assert.True(t, want.LastExit.At.Equal(got[0].LastExit.At))
	assert.Zero(t, got[1].RestartsTotal)
}
