package watch_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/units"
	"codex-proxy/units/unitstest"
	"codex-proxy/units/watch"
)

func TestWatcherFollowsARestart(t *testing.T) {
	bus := unitstest.Start(t)
	unit := bus.Systemd.Unit(worker)
	w := startWatch(t, watch.Config{Units: []string{worker}})

	stopped := units.State{
		Unit: worker, LoadState: "loaded", ActiveState: "inactive", SubState: "dead", Result: "success",
	}
	assert.Equal(t, []units.State{stopped}, w.untilUp())

	unit.Start("ready, 3 models")
	up := w.until(func(s units.State) bool { return s.Active() && !s.JobPending })
	first := up[len(up)-1]
	assert.Equal(t, "ready, 3 models", first.StatusText)
	assert.Len(t, first.InvocationID, 32)
	assert.NotZero(t, first.MainPID)
	assert.Zero(t, first.NextRestartAt)

	before, reads := time.Now(), bus.Systemd.Calls("Get")
	unit.Kill(syscall.SIGKILL, 740*time.Millisecond)
	down := w.until(func(s units.State) bool { return !s.NextRestartAt.IsZero() })
	waiting := down[len(down)-1]
	assert.Equal(t, []string{"failed/failed-before-auto-restart", "activating/auto-restart"}, subStates(down))
	for _, s := range down {
		assert.False(t, s.Failed())
	}
	exit, ok := waiting.LastExit()
	require.True(t, ok)
	assert.Equal(t, "killed by SIGKILL", exit.String())
	assert.WithinRange(t, exit.At, before.Truncate(time.Microsecond), time.Now())
	assert.Equal(t, 740*time.Millisecond, waiting.NextRestartAt.Sub(waiting.StateChangedAt))

	unit.AutoRestart("again")
	again := w.until(status("again"))
	second := again[len(again)-1]
	assert.Equal(t, []string{
		"activating/auto-restart", "activating/auto-restart-queued", "activating/start", "active/running",
	}, subStates(again))
	for _, s := range again {
		assert.Zero(t, s.NextRestartAt, "the wait is over, and the next delay is for another restart")
	}
	assert.EqualValues(t, 1, second.NRestarts)
	assert.NotEqual(t, first.InvocationID, second.InvocationID)
	_, ok = second.LastExit()
	assert.False(t, ok, "systemd forgets the exit when the unit starts")
	assert.Equal(t, reads+1, bus.Systemd.Calls("Get"), "signals carried all but the delay")
}

// The watcher wakes systemd when its timer has elapsed, once for each start.
func TestWatcherWakesSystemdForAStart(t *testing.T) {
	bus := unitstest.Start(t)
	unit := bus.Systemd.Unit(worker)
	w := startWatch(t, watch.Config{Units: []string{worker}})
	w.untilUp()
	for n := range 2 {
		unit.Start("ready")
		w.until(status("ready"))
		assert.Equal(t, n, bus.Systemd.Calls("Ping"))
		unit.Kill(syscall.SIGKILL, 50*time.Millisecond)
		due := w.until(func(s units.State) bool { return !s.NextRestartAt.IsZero() })
		require.Eventually(t, func() bool { return bus.Systemd.Calls("Ping") > n }, patience, time.Millisecond)
		assert.False(t, time.Now().Before(due[len(due)-1].NextRestartAt))
	}
}

func TestWatcherSeesTheStartLimit(t *testing.T) {
	bus := unitstest.Start(t)
	unit := bus.Systemd.Unit(worker)
	unit.Start("ready")
	w := startWatch(t, watch.Config{Units: []string{worker}})
	w.untilUp()

	unit.Exit(3, time.Second)
	unit.HitStartLimit()
	states := w.until(func(s units.State) bool { return s.Failed() && !s.JobPending })
	last := states[len(states)-1]
	exit, _ := last.LastExit()
	assert.Equal(t, "exited with status 3", exit.String())
	assert.Equal(t, "exit-code", last.Result)
	assert.EqualValues(t, 1, last.NRestarts)
	assert.True(t, last.StartLimited())
}

// A watcher that starts during a wait reports the delay of this wait.
func TestWatcherStartsDuringAWait(t *testing.T) {
	bus := unitstest.Start(t)
	unit := bus.Systemd.Unit(worker)
	unit.Exit(1, 5210*time.Millisecond)
	w := startWatch(t, watch.Config{Units: []string{worker}})

	states := w.untilUp()
	require.Len(t, states, 1)
	assert.Equal(t, 5210*time.Millisecond, states[0].NextRestartAt.Sub(states[0].StateChangedAt))
}

// Before systemd 254 the delay is constant, and a unit is failed for an instant
// before its restart.
func TestWatcherWithOldSystemd(t *testing.T) {
	bus := unitstest.Start(t)
	unit := bus.Systemd.Unit(worker)
	unit.Remove("RestartUSecNext")
	w := startWatch(t, watch.Config{Units: []string{worker}})
	w.untilUp()
	failed := unitstest.Properties{"ActiveState": "failed", "SubState": "failed", "Result": "signal"}

	unit.Set(failed, unitstest.Properties{
		"ActiveState": "activating", "SubState": "auto-restart", "StateChangeTimestamp": uint64(1_000_000),
	})
	s := w.state()
	assert.False(t, s.Failed())
	assert.Equal(t, "signal", s.Result)
	assert.Equal(t, time.UnixMicro(1_200_000), s.NextRestartAt)

	unit.Set(failed)
	assert.True(t, w.state().Failed())

	dead := unitstest.Properties{"ActiveState": "inactive", "SubState": "dead", "Result": "success"}
	unit.Set(dead, unitstest.Properties{"ActiveState": "activating", "SubState": "auto-restart"})
	assert.Equal(t, "auto-restart", w.state().SubState)
	unit.Set(dead)
	assert.Equal(t, "dead", w.state().SubState)
}

// On a busy machine the signal of the wait comes long after the signal of the end.
func TestWatcherWithOldSystemdThatIsLate(t *testing.T) {
	bus := unitstest.Start(t)
	unit := bus.Systemd.Unit(worker)
	unit.Remove("RestartUSecNext")
	w := startWatch(t, watch.Config{Units: []string{worker}})
	w.untilUp()

	unit.SetSilently(unitstest.Properties{"ActiveState": "activating", "SubState": "auto-restart", "Result": "signal"})
	unit.Emit("org.freedesktop.systemd1.Unit", map[string]dbus.Variant{
		"ActiveState": dbus.MakeVariant("failed"), "SubState": dbus.MakeVariant("failed"),
	}, []string{})
	s := w.state()
	assert.False(t, s.Failed())
	assert.Equal(t, "auto-restart", s.SubState)
}

func TestWatcherWithoutTheUnit(t *testing.T) {
	bus := unitstest.Start(t)
	w := startWatch(t, watch.Config{Units: []string{worker}})
	states := w.untilUp()
	require.Len(t, states, 1)
	assert.Equal(t, "not-found", states[0].LoadState)

	bus.Systemd.Unit(worker).Start("installed meanwhile")
	w.until(func(s units.State) bool { return s.LoadState == "loaded" && s.Active() })
}

func TestWatcherWatchesSockets(t *testing.T) {
	bus := unitstest.Start(t)
	socket := units.WorkerSocket("default")
	unit := bus.Systemd.Unit(socket)
	w := startWatch(t, watch.Config{Units: []string{socket}})
	w.untilUp()

	unit.Set(unitstest.Properties{"ActiveState": "failed", "SubState": "failed", "Result": "service-start-limit-hit"})
	s := w.state()
	assert.True(t, s.Failed())
	assert.Equal(t, "service-start-limit-hit", s.Result)
}

func TestWatcherRereads(t *testing.T) {
	bus := unitstest.Start(t)
	unit := bus.Systemd.Unit(worker)
	w := startWatch(t, watch.Config{Units: []string{worker}})
	w.untilUp()

	for name, announce := range map[string]func(){
		"empty":      func() { unit.Emit() },
		"short":      func() { unit.Emit("org.freedesktop.systemd1.Unit") },
		"wrong type": func() { unit.Emit(uint32(1), "x", true) },
		"no map":     func() { unit.Emit("org.freedesktop.systemd1.Unit", []string{"ActiveState"}, []string{}) },
	} {
		unit.SetSilently(unitstest.Properties{"StatusText": name})
		announce()
		assert.Equal(t, name, w.state().StatusText)
	}
	unit.Invalidate(unitstest.Properties{"StatusText": "invalidated"})
	assert.Equal(t, "invalidated", w.state().StatusText)
	unit.SetService(unitstest.Properties{"StatusText": "service only"})
	assert.Equal(t, "service only", w.state().StatusText)

	unit.Set(unitstest.Properties{"StatusText": uint32(7), "NRestarts": uint32(9)})
	s := w.state()
	assert.EqualValues(t, 9, s.NRestarts)
	assert.Equal(t, "service only", s.StatusText, "a value of another type is ignored")
}

func TestWatcherIsQuietWhenNothingChanges(t *testing.T) {
	bus := unitstest.Start(t)
	unit := bus.Systemd.Unit(worker)
	unit.Start("ready")
	w := startWatch(t, watch.Config{Units: []string{worker}, Resync: time.Millisecond})
	require.Len(t, w.untilUp(), 1)

	unit.Set(nil)
	bus.Systemd.Reload(func() {})
	bus.Systemd.Reexec()
	bus.Kill()
	require.Error(t, w.untilDown())
	bus.Restart()
	assert.Empty(t, w.untilUp())
	unit.Set(unitstest.Properties{"StatusText": "changed"})
	assert.Equal(t, "changed", w.state().StatusText)
}

// The timer reads one unit at a time, each in its turn.
func TestWatcherFindsLostSignals(t *testing.T) {
	bus := unitstest.Start(t)
	var names []string
	for i := range 25 {
		names = append(names, units.Worker(fmt.Sprintf("w%d", i)))
	}
	w := startWatch(t, watch.Config{Units: names, Resync: 10 * time.Millisecond})
	w.untilUp()

	bus.Systemd.Mute(true)
	for _, name := range names {
		bus.Systemd.Unit(name).Start("no signal")
	}
	for missing := len(names); missing > 0; {
		if s := w.state(); s.StatusText == "no signal" {
			assert.True(t, s.Active())
			missing--
		}
	}
}

func TestWatcherReadsAgainAfterReload(t *testing.T) {
	bus := unitstest.Start(t)
	unit := bus.Systemd.Unit(worker)
	w := startWatch(t, watch.Config{Units: []string{worker}})
	w.untilUp()

	bus.Systemd.Reload(func() { unit.Set(unitstest.Properties{"LoadState": "masked"}) })
	assert.Equal(t, "masked", w.state().LoadState)
}

func TestWatcherFollowsReexec(t *testing.T) {
	bus := unitstest.Start(t)
	unit := bus.Systemd.Unit(worker)
	w := startWatch(t, watch.Config{Units: []string{worker}})
	w.untilUp()

	for _, text := range []string{"one", "two"} {
		unit.SetSilently(unitstest.Properties{"StatusText": "missed " + text})
		bus.Systemd.Reexec()
		w.until(status("missed " + text))
		unit.Set(unitstest.Properties{"StatusText": text})
		w.until(status(text))
	}
}

func TestWatcherSubscribesToANewSystemd(t *testing.T) {
	bus := unitstest.Start(t)
	unit := bus.Systemd.Unit(worker)
	w := startWatch(t, watch.Config{Units: []string{worker}})
	w.untilUp()

	unit.SetSilently(unitstest.Properties{"StatusText": "missed"})
	bus.Systemd.Join()
	w.until(status("missed"))
	unit.Set(unitstest.Properties{"StatusText": "signalled"})
	w.until(status("signalled"))
}

func TestWatcherReportsThatSystemdIsGone(t *testing.T) {
	bus := unitstest.Start(t)
	unit := bus.Systemd.Unit(worker)
	w := startWatch(t, watch.Config{Units: []string{worker}})
	w.untilUp()

	bus.Systemd.Leave()
	require.EqualError(t, w.untilDown(), "systemd is not on the bus")
	unit.SetSilently(unitstest.Properties{"StatusText": "back"})
	bus.Systemd.Join()
	assert.Len(t, w.untilUp(), 1)
}

func TestWatcherIsNotFlooded(t *testing.T) {
	bus := unitstest.Start(t)
	unit := bus.Systemd.Unit(worker)
	entered, release := make(chan struct{}), make(chan struct{})
	states := make(chan units.State, 10_000)
	var once sync.Once
	w := startWatch(t, watch.Config{Units: []string{worker}, OnState: func(s units.State) {
		once.Do(func() {
			close(entered)
			<-release
		})
		states <- s
	}})
	<-entered
	for n := range uint32(5000) {
		unit.Set(unitstest.Properties{"NRestarts": n + 1})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, w.watcher.Alive(ctx), context.DeadlineExceeded, "the loop is stuck in a callback")

	close(release)
	var seen []uint32
	for len(seen) == 0 || seen[len(seen)-1] < 5000 {
		select {
		case s := <-states:
			seen = append(seen, s.NRestarts)
		case <-time.After(patience):
			require.Fail(t, "the newest state is missing")
		}
	}
	require.NoError(t, w.alive())
	assert.Less(t, len(seen), 5000)
	assert.IsIncreasing(t, seen)
}

// A unit that comes is watched from the next reload of systemd on, and one that goes is no more. No state is published
// twice, whether the bus ends or not.
func TestWatcherFollowsUnitsThatComeAndGo(t *testing.T) {
	bus := unitstest.Start(t)
	first, second := units.Remote("first"), units.Remote("second")
	one, two := bus.Systemd.Unit(first), bus.Systemd.Unit(second)
	var others atomic.Pointer[[]string]
	others.Store(&[]string{first})
	w := startWatch(t, watch.Config{Units: []string{worker}, Others: func() []string { return *others.Load() }})
	require.Len(t, w.untilUp(), 2)

	others.Store(&[]string{first, second, worker})
	bus.Systemd.Reload(func() {})
	assert.Equal(t, second, w.state().Unit)
	two.Set(unitstest.Properties{"StatusText": "a signal"})
	assert.Equal(t, "a signal", w.state().StatusText)

	others.Store(&[]string{second})
	bus.Systemd.Reload(func() { two.SetSilently(unitstest.Properties{"StatusText": "reloaded"}) })
	assert.Equal(t, "reloaded", w.state().StatusText)
	one.Set(unitstest.Properties{"StatusText": "gone"})
	two.Set(unitstest.Properties{"StatusText": "here"})
	assert.Equal(t, "here", w.state().StatusText)

	bus.Kill()
	require.Error(t, w.untilDown())
	bus.Restart()
	assert.Empty(t, w.untilUp())
	two.Set(unitstest.Properties{"StatusText": "again"})
	assert.Equal(t, "again", w.state().StatusText)
}
