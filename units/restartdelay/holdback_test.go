package restartdelay

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"codex-proxy/units"
	"codex-proxy/units/unitstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

var worker = units.Worker("default")

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// begin returns the first holdback, and a function that waits for the end.
func begin(ctx context.Context, t *testing.T) (first holdback, ended func() error) {
	t.Helper()
	left, done := make(chan holdback, 100), make(chan error, 1)
	go func() { done <- holdBack(ctx, func(h holdback) { left <- h }) }()
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
	unit := bus.OldWorker(t, worker, delay)
	unit.HoldBack(2)
	began := time.Now()
	first, ended := begin(bounded(t), t)
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
			unit := bus.OldWorker(t, worker, time.Hour)
			unit.HoldBack(2)
			_, ended := begin(bounded(t), t)
			require.Eventually(t, func() bool { return bus.Systemd.Calls("Subscribe") > 0 }, patience, time.Millisecond)
			end(unit)
			assert.NoError(t, ended())
		})
	}
	t.Run("stop", func(t *testing.T) {
		bus := unitstest.Start(t)
		bus.OldWorker(t, worker, time.Hour).HoldBack(2)
		ctx, cancel := context.WithCancel(t.Context())
		_, ended := begin(ctx, t)
		cancel()
		assert.ErrorIs(t, ended(), context.Canceled)
	})
	t.Run("no bus any more", func(t *testing.T) {
		bus := unitstest.Start(t)
		unit, began := bus.OldWorker(t, worker, delay), time.Now()
		unit.HoldBack(2)
		_, ended := begin(bounded(t), t)
		bus.Kill()
		assert.NoError(t, ended())
		assert.Greater(t, time.Since(began), delay-time.Second, "the wait goes on")
	})
}

func TestHoldBackHoldsNothingBack(t *testing.T) {
	never := func(h holdback) { t.Errorf("waits: %+v", h) }
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
			prepare(bus.OldWorker(t, worker, time.Hour))
			assert.NoError(t, holdBack(bounded(t), never))
		})
	}
	t.Run("no unit", func(t *testing.T) {
		unitstest.Start(t)
		assert.ErrorContains(t, holdBack(bounded(t), never), "cannot ask systemd about our own restart delay")
	})
}
