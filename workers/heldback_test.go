package workers_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/probes"
)

// A start that waits for its own delay belongs to the same outage: it counts once,
// keeps the earlier reason, and is logged once.
func TestHeldBackStart(t *testing.T) {
	r := newRig(t, nil, named{"a", "/nowhere"})
	r.report(running("a", "1", 0))
	down := unit("a", "activating", "auto-restart", "1", 0)
	down.Result, down.StatusText = "exit-code", "Not started: no codex"
	held := unit("a", "activating", "start-pre", "2", 1)
	held.HeldBack, held.StatusText = true, "Backing off until tomorrow"
	held.NextRestartAt = time.Now().Add(time.Hour)
	began := held
	began.StatusText, began.NextRestartAt = "", time.Time{}
	r.report(down, began, held)

	w := r.pool.Snapshot().Workers[0]
	assert.Equal(t, probes.BackingOff, w.Reason)
	assert.Equal(t, "Not started: no codex", w.StatusText)
	assert.Equal(t, held.NextRestartAt, *w.NextRestartAt)
	assert.EqualValues(t, 1, w.ConsecutiveFailures)
	assert.EqualValues(t, 1, w.RestartsTotal)
	assert.Len(t, w.Transitions, 2, "handshake_pending, backing_off: %+v", w.Transitions)

	started := unit("a", "activating", "start-pre", "2", 1)
	started.StatusText = "Starting"
	r.report(started)
	w = r.pool.Snapshot().Workers[0]
	assert.Equal(t, probes.Starting, w.Reason)
	assert.Equal(t, "Starting", w.StatusText)
	assert.Nil(t, w.NextRestartAt)
}
