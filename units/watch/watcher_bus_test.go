package watch_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/units"
	"codex-proxy/units/unitstest"
	"codex-proxy/units/watch"
)

func TestWatcherSurvivesTheBus(t *testing.T) {
	bus := unitstest.Start(t)
	unit := bus.Systemd.Unit(worker)
	w := startWatch(t, watch.Config{Units: []string{worker}})
	w.untilUp()
	quickest := patience // other work of the machine delays one of them, not all
	for _, text := range []string{"one", "two", "three"} {
		bus.Kill()
		require.Error(t, w.untilDown())
		unit.SetSilently(unitstest.Properties{"StatusText": "missed " + text})
		bus.Restart()
		back := time.Now()
		states := w.untilUp()
		quickest = min(quickest, time.Since(back))
		require.Len(t, states, 1)
		assert.Equal(t, "missed "+text, states[0].StatusText)
		unit.Set(unitstest.Properties{"StatusText": text})
		assert.Equal(t, text, w.state().StatusText, "subscribed again")
	}
	assert.Less(t, quickest, 2*time.Second)
}

func TestWatcherLeaksNoFiles(t *testing.T) {
	bus := unitstest.Start(t)
	bus.Systemd.Unit(worker)
	w := startWatch(t, watch.Config{Units: []string{worker}})
	w.untilUp()
	before := openFiles(t)
	for range 10 {
		bus.Kill()
		require.Error(t, w.untilDown())
		bus.Restart()
		w.untilUp()
	}
	assert.LessOrEqual(t, openFiles(t), before+1)
}

func TestWatcherWithoutABus(t *testing.T) {
	bus := unitstest.NewStopped(t)
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	w := startWatch(t, watch.Config{Units: []string{worker}, Logger: logger})

	require.ErrorIs(t, w.untilDown(), units.ErrNoBus)
	require.NoError(t, w.alive())
	bus.Restart() // the watcher tries again, first soon and then slowly, without a log line
	w.untilUp()
	w.stop()
	assert.Equal(t, 1, strings.Count(log.String(), "cannot watch units"), log.String())
}

func TestWatcherWithoutSystemd(t *testing.T) {
	bus := unitstest.NewStopped(t)
	bus.StartBusOnly()
	w := startWatch(t, watch.Config{Units: []string{worker}})
	require.EqualError(t, w.untilDown(), "systemd is not on the bus")
	bus.Systemd.Join()
	w.untilUp()
}

func TestWatcherOnAFrozenBus(t *testing.T) {
	bus := unitstest.Start(t)
	unit := bus.Systemd.Unit(worker)
	w := startWatch(t, watch.Config{Units: []string{worker}, Resync: time.Millisecond})
	w.untilUp()

	bus.Freeze()
	assert.NoError(t, w.alive(), "the loop does not wait for the bus")
	bus.Thaw()
	unit.Set(unitstest.Properties{"StatusText": "thawed"})
	w.until(status("thawed"))
	bus.Freeze()
	defer bus.Thaw()
	w.stop() // fails the test unless Run ends
}

func TestWatcherBelievesOnlySystemd(t *testing.T) {
	bus := unitstest.Start(t)
	unit := bus.Systemd.Unit(worker)
	unit.Start("ready")
	w := startWatch(t, watch.Config{Units: []string{worker}})
	w.untilUp()
	forger := bus.Forger()
	path := "/org/freedesktop/systemd1/unit/codex_2dworker_40default_2eservice"
	lie := unitstest.Properties{"ActiveState": "failed", "SubState": "failed", "StatusText": "forged"}

	forger.Broadcast(worker, lie)
	forger.Unicast(worker, lie)
	forger.UnicastSignal(path, "org.freedesktop.DBus.Properties.PropertiesChanged")
	forger.UnicastSignal("/org/freedesktop/DBus", "org.freedesktop.DBus.NameOwnerChanged",
		"org.freedesktop.systemd1", "", forger.Name())
	forger.Unicast(worker, lie)
	unit.Set(unitstest.Properties{"StatusText": "true"})
	s := w.state()
	assert.Equal(t, "true", s.StatusText)
	assert.True(t, s.Active())

	bus.Systemd.Reexec() // another owner, the same forger
	forger.Unicast(worker, lie)
	unit.Set(unitstest.Properties{"StatusText": "still true"})
	assert.Equal(t, "still true", w.state().StatusText)
}

// A stray signal may carry file descriptors, which would stay open.
func TestWatcherTakesNoFiles(t *testing.T) {
	bus := unitstest.Start(t)
	unit := bus.Systemd.Unit(worker)
	w := startWatch(t, watch.Config{Units: []string{worker}})
	w.untilUp()
	forger := bus.Forger()
	before := openFiles(t)
	for range 50 {
		forger.UnicastSignal("/x", "x.y.Z", forger.File())
	}
	unit.Set(unitstest.Properties{"StatusText": "after"})
	w.until(status("after"))
	assert.Less(t, openFiles(t), before+10)
}

func TestAliveNeedsRun(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	err := watch.New(watch.Config{}).Alive(ctx)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}

func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(files)
}
