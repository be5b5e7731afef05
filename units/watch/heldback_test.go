package watch_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/units/properties"
	"codex-proxy/units/unitstest"
	"codex-proxy/units/watch"
)

// The watcher recognises a start that waits, from its first moment on, and until when.
func TestWatcherSeesAStartHeldBack(t *testing.T) {
	bus := unitstest.Start(t)
	unit := bus.OldWorker(t, worker, time.Hour)
	unit.HoldBack(2)
	w := startWatch(t, watch.Config{Units: []string{worker}})
	states := w.untilUp()
	s := states[len(states)-1]
	assert.True(t, s.HeldBack)
	assert.Equal(t, time.Hour, s.NextRestartAt.Sub(s.LeftInactiveAt))

	until := time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC)
	held := properties.HeldStatus(2, until)
	assert.Equal(t, "Backing off until 2026-01-02T03:04:05.600Z, before restart 2", held)
	unit.Set(unitstest.Properties{"StatusText": held})
	s = w.state()
	assert.True(t, s.HeldBack)
	assert.Equal(t, until, s.NextRestartAt)

	unit.Set(unitstest.Properties{"StatusText": "Starting"})
	s = w.state()
	assert.False(t, s.HeldBack)
	assert.Zero(t, s.NextRestartAt)

	unit.Set(unitstest.Properties{"SubState": "start", "StatusText": held})
	assert.True(t, w.state().HeldBack, "a unit without ExecStartPre=")
	unit.Set(unitstest.Properties{"ActiveState": "active", "SubState": "running"})
	assert.False(t, w.state().HeldBack)
}
