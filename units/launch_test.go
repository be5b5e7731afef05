package units_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/units"
	"codex-proxy/units/unitstest"
)

func TestManagerStartsWithProperties(t *testing.T) {
	bus := unitstest.Start(t)
	unit := bus.Systemd.Unit(worker)
	m := units.NewManager()
	defer m.Close()
	properties := []units.Property{{Name: "MemoryMax", Value: 1 << 30}, {Name: "TasksMax", Value: 77}}
	require.NoError(t, m.StartWith(bounded(t), worker, properties...))
	assert.Equal(t, map[string]any{"MemoryMax": uint64(1 << 30), "TasksMax": uint64(77)}, unit.Control())

	bus.Systemd.Refuse("org.freedesktop.DBus.Error.AccessDenied", "SetUnitProperties")
	starts := bus.Systemd.Calls("StartUnit")
	assert.ErrorContains(t, m.StartWith(bounded(t), worker), "is the polkit rule of this package installed?")
	assert.Equal(t, starts, bus.Systemd.Calls("StartUnit"), "a unit without its limits is not started")
}

// Starts one after the other have one connection, until that is lost.
func TestManagerKeepsAConnection(t *testing.T) {
	bus := unitstest.Start(t)
	bus.Systemd.Unit(worker)
	m := units.NewManager()
	defer m.Close()
	start := func(subscriptions int) {
		t.Helper()
		require.NoError(t, m.StartWith(bounded(t), worker))
		assert.Equal(t, subscriptions, bus.Systemd.Calls("Subscribe"))
	}
	start(1)
	require.NoError(t, m.Stop(bounded(t), worker)) // the end of a job that nobody on the connection waits for
	start(2)
	bus.Systemd.Reexec()
	start(3)
	start(3)
	bus.Kill()
	assert.Error(t, m.StartWith(bounded(t), worker))
	bus.Restart()
	require.NoError(t, m.StartWith(bounded(t), worker))
}

// A bus or a systemd that is away is no refusal, and a refusal may pass or not.
func TestManagerTellsAnswersApart(t *testing.T) {
	bus := unitstest.Start(t)
	m := units.NewManager()
	defer m.Close()
	for name, want := range map[string]error{
		"org.freedesktop.DBus.Error.NoReply":                units.ErrUnanswered,
		"org.freedesktop.DBus.Error.NameHasNoOwner":         units.ErrUnanswered,
		"org.freedesktop.DBus.Error.AccessDenied":           units.ErrUnavailable,
		"org.freedesktop.systemd1.TransactionIsDestructive": units.ErrUnavailable,
		"org.freedesktop.DBus.Error.Spawn.ChildExited":      units.ErrUnavailable,
		"org.freedesktop.systemd1.NoSuchUnit":               nil,
		"org.freedesktop.DBus.Error.InvalidArgs":            nil,
	} {
		bus.Systemd.Refuse(name)
		for _, err := range []error{m.StartWith(bounded(t), worker), m.Start(bounded(t), worker)} {
			require.ErrorContains(t, err, "cannot start codex-worker@default.service: systemd refuses: ")
			for _, kind := range []error{units.ErrUnanswered, units.ErrUnavailable} {
				assert.Equal(t, errors.Is(want, kind), errors.Is(err, kind), "%s: %v", name, kind)
			}
		}
	}
	bus.Kill()
	for _, err := range []error{m.StartWith(bounded(t), worker), m.Start(bounded(t), worker)} {
		assert.ErrorIs(t, err, units.ErrUnanswered)
	}
}

// A start goes on over a daemon-reexec. If its job has ended meanwhile, its result is unknown.
func TestManagerFollowsAJobOverAReexec(t *testing.T) {
	bus := unitstest.Start(t)
	unit := bus.Systemd.Unit(worker)
	unit.Jobs("")
	m := units.NewManager()
	defer m.Close()
	begin := func() <-chan error {
		starts := bus.Systemd.Calls("StartUnit")
		done := make(chan error, 1)
		go func() { done <- m.StartWith(bounded(t), worker) }()
		require.Eventually(t, func() bool { return bus.Systemd.Calls("StartUnit") > starts }, patience, time.Millisecond)
		return done
	}
	done := begin()
	bus.Systemd.Reexec()
	require.Eventually(t, func() bool { return bus.Systemd.Calls("GetJob") == 1 }, patience, time.Millisecond)
	unit.EndJob("done")
	require.NoError(t, wait(t, done))

	done = begin()
	bus.Systemd.Mute(true)
	unit.EndJob("done")
	bus.Systemd.Mute(false)
	bus.Systemd.Reexec()
	assert.ErrorIs(t, wait(t, done), units.ErrUnanswered)
}

func TestManagerLists(t *testing.T) {
	bus := unitstest.Start(t)
	bus.Systemd.Unit(worker).Start("")
	bus.Systemd.Unit("codex-worker@other.service").Queue("start")
	bus.Systemd.Unit("other.service").Start("")
	m := units.NewManager()
	defer m.Close()
	got, err := m.List(bounded(t), "codex-worker@*.service", "none")
	require.NoError(t, err)
	assert.Equal(t, []units.State{
		{Unit: worker, LoadState: "loaded", ActiveState: "active", SubState: "running"},
		{Unit: "codex-worker@other.service", LoadState: "loaded", ActiveState: "inactive", SubState: "dead", JobPending: true},
	}, got)
	bus.Kill()
	_, err = m.List(bounded(t))
	assert.ErrorContains(t, err, "cannot list units: ")
}
