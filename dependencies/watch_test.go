package dependencies

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/probes"
	"codex-proxy/units"
	"codex-proxy/units/restarts"
)

// began is when the units of these tests changed their state.
var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newWatch(required ...Required) (*Watch, *[]string) {
	reasons := []string{}
	return New(Settings{
		Dependencies: required, Resets: restarts.NewResets(time.Minute, nil, nil), OnChange: func() {},
		OnReason: func(before, after probes.Dependency) {
			reasons = append(reasons, string(before.Reason)+">"+string(after.Reason))
		},
	}), &reasons
}

func unit(name, active, sub, invocation string, restarts uint32) units.State {
	return units.State{
		Unit: units.Dependency(name), ActiveState: active, SubState: sub, Result: "success", InvocationID: invocation,
		NRestarts: restarts, StateChangedAt: began,
	}
}

// A crash and the restart after it, as systemd reports them.
func TestReport(t *testing.T) {
	w, reasons := newWatch(Required{Name: "db", By: []string{"codex-proxy.service"}, HoldsService: true},
		Required{Name: "spare"})
	one := func() probes.Dependency { return w.Report()[0] }
	assert.Equal(t, probes.DependencyStarting, one().Reason, "systemd has not reported it")
	up := unit("db", "active", "running", "1", 0)
	up.StatusText, up.MainPID = "Ready", 7
	w.UnitChanged(up)
	assert.Equal(t, probes.Dependency{
		Name: "db", Unit: "codex-dependency@db.service", ActiveState: "active", SubState: "running", MainPID: 7,
		StatusText: "Ready", Ready: true, Reason: probes.DependencyReady, Since: began,
		RequiredBy: []string{"codex-proxy.service"}, HoldsService: true,
	}, one())
	next := began.Add(time.Second)
	down := unit("db", "activating", "auto-restart", "1", 0)
	down.Result, down.ExecMainCode, down.ExecMainStatus, down.NextRestartAt = "watchdog", 2, 9, next
	down.StateChangedAt = began.Add(time.Minute)
	w.UnitChanged(down)
	assert.Equal(t, probes.DependencyBackingOff, one().Reason)
	assert.Equal(t, &probes.Exit{Result: "watchdog", Code: "killed", Status: "SIGKILL"}, one().LastExit)
	assert.Equal(t, &next, one().NextRestartAt)
	assert.Equal(t, began.Add(time.Minute), one().Since)
	again := down
	again.SubState, again.StateChangedAt = "auto-restart-queued", began.Add(time.Hour)
	w.UnitChanged(again)
	assert.Equal(t, began.Add(time.Minute), one().Since, "the reason is the same")
	w.UnitChanged(unit("db", "active", "running", "2", 1))
	assert.Equal(t, uint64(1), one().RestartsTotal)
	assert.NotNil(t, one().LastExit, "systemd forgets it, the report does not")
	w.UnitChanged(units.State{Unit: "codex-worker@db.service", ActiveState: "failed"})
	assert.True(t, one().Ready, "a worker's unit is another one")
	assert.Equal(t, []string{">ready", "ready>backing_off", "backing_off>ready"}, *reasons)
}

// The command line of another process is for the operators of the machine.
func TestReportNamesNoHolder(t *testing.T) {
	w, _ := newWatch(Required{Name: "db"})
	refused := unit("db", "failed", "failed", "1", 0)
	refused.Result, refused.ExecMainCode, refused.ExecMainStatus = "exit-code", 1, 75
	refused.StatusText = "Not started: port 5432 is held by pid 812 (postgres --secret)"
	starting := unit("db", "activating", "start", "1", 0)
	starting.StatusText = refused.StatusText
	w.UnitChanged(starting)
	assert.Equal(t, probes.DependencyStarting, w.Report()[0].Reason)
	assert.Empty(t, w.Report()[0].StatusText, "its process has not ended")
	w.UnitChanged(refused)
	report := w.Report()[0]
	assert.Equal(t, probes.DependencyRefused, report.Reason)
	assert.Empty(t, report.StatusText)
	assert.Contains(t, report.Sentence(), "dependency db: refused; end the process that `systemctl status ")
}

func TestUnmet(t *testing.T) {
	w, _ := newWatch(Required{Name: "a"}, Required{Name: "b"}, Required{Name: "c"})
	w.UnitChanged(unit("a", "active", "running", "1", 0))
	w.UnitChanged(unit("b", "activating", "start", "1", 0))
	w.UnitChanged(unit("c", "inactive", "dead", "", 0))
	for _, tc := range []struct {
		names, want []string
		reason      probes.DependencyReason
	}{
		{nil, nil, ""},
		{[]string{"a"}, nil, ""},
		{[]string{"b", "a"}, []string{"b"}, probes.DependencyStarting},
		{[]string{"b", "c"}, []string{"b", "c"}, probes.DependencyStopped},
		{[]string{"c", "b"}, []string{"c", "b"}, probes.DependencyStopped},
	} {
		unmet, reason := w.Unmet(tc.names)
		assert.Equal(t, tc.want, unmet)
		assert.Equal(t, tc.reason, reason)
	}
}

// Without a bus, a dependency that was never reported holds nothing; one that was reported
// stays as it was.
func TestBusAway(t *testing.T) {
	w, _ := newWatch(Required{Name: "a", HoldsService: true}, Required{Name: "b", HoldsService: true})
	w.UnitChanged(unit("b", "failed", "failed", "1", 0))
	unmet, _ := w.Unmet([]string{"a", "b"})
	assert.Equal(t, []string{"a", "b"}, unmet)
	w.BusChanged(false)
	unmet, _ = w.Unmet([]string{"a", "b"})
	assert.Equal(t, []string{"b"}, unmet)
	assert.False(t, w.Report()[0].HoldsService)
	assert.True(t, w.Report()[1].HoldsService)
	w.BusChanged(true)
	assert.True(t, w.Report()[0].HoldsService)
}

func TestSaved(t *testing.T) {
	before, _ := newWatch(Required{Name: "a"}, Required{Name: "gone"})
	failed := unit("a", "failed", "failed", "1", 0)
	failed.Result, failed.ExecMainCode, failed.ExecMainStatus = "exit-code", 1, 3
	before.UnitChanged(failed)
	before.UnitChanged(unit("a", "active", "running", "2", 1))
	after, _ := newWatch(Required{Name: "a"}, Required{Name: "new"})
	after.UnitChanged(unit("a", "active", "running", "2", 1))
	after.Restore(before.Save())
	assert.Equal(t, uint64(1), after.Report()[0].RestartsTotal)
	assert.Equal(t, "3", after.Report()[0].LastExit.Status)
	assert.Zero(t, after.Report()[1].RestartsTotal)
}

func TestNoDependencies(t *testing.T) {
	w, reasons := newWatch()
	w.UnitChanged(unit("a", "active", "running", "1", 0))
	w.BusChanged(true)
	assert.Nil(t, w.Report())
	assert.Empty(t, *reasons)
}

// The restart delay is reset of a dependency that has become ready again.
func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newWatch(Required{Name: "a"}, Required{Name: "b"})
		var reset []string
		w.settings.Resets = restarts.NewResets(time.Minute, func(_ context.Context, unit string) error {
			reset = append(reset, unit)
			return nil
		}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.settings.Resets.Run(ctx) }()
		w.UnitChanged(unit("a", "active", "running", "1", 2))
		w.UnitChanged(unit("b", "activating", "auto-restart", "1", 2))
		w.UnitChanged(units.State{Unit: "codex-worker@a.service", ActiveState: "active", NRestarts: 2})
		time.Sleep(time.Until(began.Add(time.Hour)))
		synctest.Wait()
		assert.Equal(t, []string{"codex-dependency@a.service"}, reset)
		cancel()
		assert.NoError(t, <-done)
	})
}
