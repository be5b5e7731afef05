package units_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/units"
	"codex-proxy/units/unitstest"
)

// oldUnit is our own unit, a worker on a systemd without growing delays. Each restart
// but the first waits for d after RestartSec=, which is 200 ms.
func oldUnit(t *testing.T, bus *unitstest.Bus, d time.Duration) *unitstest.Unit {
	file := filepath.Join(t.TempDir(), "x.service")
	text := "[Service]\nRestartSteps=1\nRestartMaxDelaySec=" + (200*time.Millisecond + d).String() + "\n"
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	unit := bus.Systemd.Unit(worker)
	unit.SetSilently(unitstest.Properties{"FragmentPath": file, "TimeoutStartUSec": uint64(30_000_000)})
	bus.Systemd.Own(worker)
	return unit
}

// holdBack returns the first Holdback, and a function that waits for the end.
func holdBack(ctx context.Context, t *testing.T) (first units.Holdback, ended func() error) {
	t.Helper()
	m := units.NewManager()
	t.Cleanup(m.Close)
	left, done := make(chan units.Holdback, 100), make(chan error, 1)
	go func() { done <- m.HoldBack(ctx, func(h units.Holdback) { left <- h }) }()
	select {
	case first = <-left:
	case <-time.After(patience):
		t.Fatal("HoldBack does not wait")
	}
	return first, func() error {
		select {
		case err := <-done:
			return err
		case <-time.After(patience):
			t.Fatal("the wait does not end")
			return nil
		}
	}
}

// delay is longer than a busy machine needs to ask for it.
const delay = 4 * time.Second

func TestHoldBackWaitsForTheRest(t *testing.T) {
	bus := unitstest.Start(t)
	unit := oldUnit(t, bus, delay)
	unit.HoldBack(2)
	began := time.Now()
	first, ended := holdBack(bounded(t), t)
	assert.EqualValues(t, 2, first.Restart)
	assert.LessOrEqual(t, first.Wait, delay)
	assert.Equal(t, 30*time.Second, first.StartTimeout)
	require.NoError(t, ended())
	assert.Greater(t, time.Since(began), first.Wait-time.Millisecond)
}

// A reset, a start or a stop ends a wait that would outlast the test.
func TestHoldBackEnds(t *testing.T) {
	for name, end := range map[string]func(*unitstest.Unit){
		"reset": func(u *unitstest.Unit) { u.SetSilently(unitstest.Properties{"NRestarts": uint32(0)}) },
		"start": (*unitstest.Unit).StartAgain,
	} {
		t.Run(name, func(t *testing.T) {
			bus := unitstest.Start(t)
			unit := oldUnit(t, bus, time.Hour)
			unit.HoldBack(2)
			_, ended := holdBack(bounded(t), t)
			require.Eventually(t, func() bool { return bus.Systemd.Calls("Subscribe") > 0 }, patience, time.Millisecond)
			end(unit)
			assert.NoError(t, ended())
		})
	}
	t.Run("stop", func(t *testing.T) {
		bus := unitstest.Start(t)
		oldUnit(t, bus, time.Hour).HoldBack(2)
		ctx, cancel := context.WithCancel(t.Context())
		_, ended := holdBack(ctx, t)
		cancel()
		assert.ErrorIs(t, ended(), context.Canceled)
	})
	t.Run("no bus any more", func(t *testing.T) {
		bus := unitstest.Start(t)
		unit, began := oldUnit(t, bus, delay), time.Now()
		unit.HoldBack(2)
		_, ended := holdBack(bounded(t), t)
		bus.Kill()
		assert.NoError(t, ended())
		assert.Greater(t, time.Since(began), delay-time.Second, "the wait goes on")
	})
}

func TestHoldBackHoldsNothingBack(t *testing.T) {
	never := func(h units.Holdback) { t.Errorf("waits: %+v", h) }
	for name, prepare := range map[string]func(*unitstest.Unit){
		"growing delays": func(u *unitstest.Unit) {
			u.HoldBack(3)
			u.SetSilently(unitstest.Properties{"RestartSteps": uint32(1)})
		},
		"a start by hand":   func(u *unitstest.Unit) { u.HoldBack(0) },
		"the first restart": func(u *unitstest.Unit) { u.HoldBack(1) },
	} {
		t.Run(name, func(t *testing.T) {
			bus := unitstest.Start(t)
			prepare(oldUnit(t, bus, time.Hour))
			m := units.NewManager()
			defer m.Close()
			assert.NoError(t, m.HoldBack(bounded(t), never))
		})
	}
	t.Run("no unit", func(t *testing.T) {
		unitstest.Start(t)
		m := units.NewManager()
		defer m.Close()
		assert.ErrorContains(t, m.HoldBack(bounded(t), never), "cannot ask systemd about our own restart delay")
	})
}

// The watcher recognises a start that waits, from its first moment on, and until when.
func TestWatcherSeesAStartHeldBack(t *testing.T) {
	bus := unitstest.Start(t)
	unit := oldUnit(t, bus, time.Hour)
	unit.HoldBack(2)
	w := startWatch(t, units.Config{Units: []string{worker}})
	states := w.untilUp()
	s := states[len(states)-1]
	assert.True(t, s.HeldBack)
	assert.Equal(t, time.Hour, s.NextRestartAt.Sub(s.LeftInactiveAt))

	until := time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC)
	held := units.Holdback{Restart: 2}.Status(until)
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
