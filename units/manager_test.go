package units_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"codex-proxy/units"
	"codex-proxy/units/unitstest"
	"codex-proxy/units/watch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

var errTest = errors.New("test")

var worker = units.Worker("default")

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// states are those of the worker.
type states struct {
	t    *testing.T
	all  chan units.State
	stop func()
}

func follow(t *testing.T) states {
	t.Helper()
	all := make(chan units.State, 1000)
	w := watch.New(watch.Config{Units: []string{worker}, OnState: func(s units.State) { all <- s }})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { assert.NoError(t, w.Run(ctx)) })
	stop := func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return states{t, all, stop}
}

// until returns the first state for which ok is true.
func (s states) until(ok func(units.State) bool) units.State {
	s.t.Helper()
	for {
		select {
		case state := <-s.all:
			if ok(state) {
				return state
			}
		case <-time.After(patience):
			require.Fail(s.t, "there is no such state")
		}
	}
}

func TestManagerWaitsForJobs(t *testing.T) {
	bus := unitstest.Start(t)
	unit := bus.Systemd.Unit(worker)
	states := follow(t)
	m := units.NewManager()
	defer m.Close()

	require.NoError(t, m.Start(bounded(t), worker))
	states.until(func(s units.State) bool { return s.Active() && !s.JobPending })
	require.NoError(t, m.Restart(bounded(t), worker))
	states.until(func(s units.State) bool { return s.Active() && !s.JobPending })
	require.NoError(t, m.Stop(bounded(t), worker))
	states.until(func(s units.State) bool { return s.SubState == "dead" && !s.JobPending })

	for result, want := range map[string]string{
		"failed":     "cannot start codex-worker@default.service: the job failed (see the unit's journal)",
		"canceled":   "cannot start codex-worker@default.service: another job took its place",
		"timeout":    "cannot start codex-worker@default.service: the job took too long",
		"dependency": "cannot start codex-worker@default.service: a unit that it needs failed to start",
		"skipped":    `cannot start codex-worker@default.service: the job ended as "skipped"`,
	} {
		unit.Jobs(result)
		assert.EqualError(t, m.Start(bounded(t), worker), want)
	}
}

func TestManagerEnqueues(t *testing.T) {
	bus := unitstest.Start(t)
	bus.Systemd.Unit(worker).Jobs("failed")
	states := follow(t)
	m := units.NewManager()
	defer m.Close()
	assert.NoError(t, m.Enqueue(bounded(t), worker), "the end of the job is not waited for")
	bus.Systemd.Unit(worker).Jobs("done")
	require.NoError(t, m.Enqueue(bounded(t), worker))
	states.until(func(s units.State) bool { return s.Active() && !s.JobPending })
}

func TestManagerResetsFailed(t *testing.T) {
	bus := unitstest.Start(t)
	unit := bus.Systemd.Unit(worker)
	unit.Exit(3, time.Second)
	unit.HitStartLimit()
	states := follow(t)
	m := units.NewManager()
	defer m.Close()

	require.NoError(t, m.ResetFailed(bounded(t), worker))
	s := states.until(func(s units.State) bool { return s.NRestarts == 0 })
	assert.False(t, s.Failed())
	assert.Zero(t, s.NRestarts)
	assert.NoError(t, m.ResetFailed(bounded(t), units.Worker("unloaded")))
}

// The integration tests check the links, on the real systemd.
func TestManagerInstalls(t *testing.T) {
	bus := unitstest.Start(t)
	m := units.NewManager()
	defer m.Close()
	require.NoError(t, m.Enable(bounded(t), worker))
	require.NoError(t, m.Disable(bounded(t), worker))
	assert.Equal(t, 1, bus.Systemd.Calls("EnableUnitFiles"))
	assert.Equal(t, 1, bus.Systemd.Calls("DisableUnitFiles"))
	assert.Equal(t, 2, bus.Systemd.Calls("Reload"), "systemd reads the links")
	require.NoError(t, m.Reload(bounded(t), worker))
	bus.Systemd.Refuse("org.freedesktop.DBus.Error.NoMemory", "Reload")
	const refused = "codex-worker@default.service: systemd refuses: "
	assert.ErrorContains(t, m.Enable(bounded(t), worker), "cannot enable "+refused)
	assert.Equal(t, 2, bus.Systemd.Calls("DisableUnitFiles"), "it removes the links again")
	bus.Systemd.Refuse("org.freedesktop.DBus.Error.AccessDenied")
	assert.ErrorContains(t, m.Enable(bounded(t), worker), "cannot enable "+refused)
	assert.ErrorContains(t, m.Reload(bounded(t), worker), "cannot reload "+refused)
}

func TestManagerRefused(t *testing.T) {
	bus := unitstest.Start(t)
	m := units.NewManager()
	defer m.Close()
	bus.Systemd.Refuse("org.freedesktop.DBus.Error.InteractiveAuthorizationRequired")
	assert.ErrorContains(t, m.Stop(bounded(t), worker), "is the polkit rule of this package installed?")
	assert.ErrorContains(t, m.ResetFailed(bounded(t), worker), "is the polkit rule of this package installed?")
	bus.Systemd.Refuse("org.freedesktop.systemd1.NoSuchUnit")
	assert.ErrorContains(t, m.Start(bounded(t), worker), "cannot start codex-worker@default.service: systemd refuses: ")
}

// start begins a start whose job stays, and returns once systemd has the job.
func start(ctx context.Context, t *testing.T, bus *unitstest.Bus, m *units.Manager) <-chan error {
	t.Helper()
	unit := bus.Systemd.Unit(worker)
	unit.Jobs("")
	states := follow(t)
	done := make(chan error, 1)
	go func() { done <- m.Start(ctx, worker) }()
	states.until(func(s units.State) bool { return s.JobPending })
	states.stop()
	return done
}

func wait(t *testing.T, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		require.Fail(t, "the call does not end")
		return nil
	}
}

func TestManagerIsBoundedByContext(t *testing.T) {
	bus := unitstest.Start(t)
	m := units.NewManager()
	defer m.Close()
	ctx, cancel := context.WithCancelCause(bounded(t))
	done := start(ctx, t, bus, m)
	cancel(errTest)
	assert.ErrorIs(t, wait(t, done), errTest)
}

func TestManagerClose(t *testing.T) {
	bus := unitstest.Start(t)
	m := units.NewManager()
	done := start(bounded(t), t, bus, m)
	m.Close()
	m.Close()
	assert.ErrorContains(t, wait(t, done), "the manager is closed")
	assert.ErrorContains(t, m.Stop(bounded(t), worker), "the manager is closed")
}

func TestManagerLosesTheBus(t *testing.T) {
	bus := unitstest.Start(t)
	m := units.NewManager()
	defer m.Close()
	done := start(bounded(t), t, bus, m)
	bus.Kill()
	assert.ErrorContains(t, wait(t, done), "the bus connection ended before systemd reported the result of the job")
	bus.Restart()
	bus.Systemd.Unit(worker).Jobs("done")
	assert.NoError(t, m.Start(bounded(t), worker), "the next call finds the bus again")
}

func TestManagerBelievesOnlySystemd(t *testing.T) {
	bus := unitstest.Start(t)
	m := units.NewManager()
	defer m.Close()
	done := start(bounded(t), t, bus, m)
	for _, path := range []string{"1", "2", "3"} {
		bus.Forger().UnicastSignal("/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager.JobRemoved",
			uint32(1), unitstest.JobPath(path), worker, "done")
	}
	bus.Systemd.Unit(worker).EndJob("failed")
	assert.ErrorContains(t, wait(t, done), "the job failed")
}

func TestManagerWithoutABus(t *testing.T) {
	unitstest.NewStopped(t)
	m := units.NewManager()
	defer m.Close()
	assert.ErrorIs(t, m.Start(bounded(t), worker), units.ErrNoBus)
}
