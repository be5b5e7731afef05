package dependencies

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/probes"
	"codex-proxy/test/await"
	"codex-proxy/test/bed"
)

// gate is a dependency whose probe passes while the file up exists.
const (
	gateUp   = "/opt/up"
	gateFile = `command = ["/bin/sleep", "infinity"]
[probe]
check = "exec:test -e ` + gateUp + `"
interval = "1s"
failures = 5
`
	needsGate = "requires = [\"gate\"]\n"
	bindsGate = needsGate + "bind_requires = true\n"
)

// needingBed has the dependency, open, and a worker and a service with those settings.
func needingBed(t *testing.T, suite, worker, config string) (*bed.Bed, bed.Dependency) {
	t.Helper()
	b := bed.New(t, suite, worker+bed.RealWorker, config)
	require.NoError(t, b.WriteFile(gateUp, nil, 0o644))
	return b, bed.NewDependency(b, "gate", gateFile)
}

// when is a time of the unit since the boot, in microseconds.
func when(b *bed.Bed, unit, change string) int64 {
	b.T.Helper()
	property := change + "TimestampMonotonic"
	usec, err := strconv.ParseInt(b.Properties(unit, property)[property], 10, 64)
	require.NoError(b.T, err)
	return usec
}

// A worker starts after its dependency is ready, and also without one that does not start;
// it stops before it.
func TestRequires(t *testing.T) { bed.BothSuites(t, testRequires) }

func testRequires(t *testing.T, suite string) {
	b, d := needingBed(t, suite, needsGate, "")
	b.MustRun(t, "rm", gateUp)
	started := b.Begin("systemctl", "start", bed.WorkerUnit)
	for deadline, pace := time.Now().Add(bed.Bound), (await.Pace{}); len(serverProcesses(d)) != 1; pace.Pause(t.Context()) {
		require.True(t, time.Now().Before(deadline), "the dependency never ran\n%s", b.UnitJournal(d.Unit))
	}
	assert.Equal(t, "start", b.Properties(d.Unit, "SubState")["SubState"], "it runs, and is not ready")
	assert.Equal(t, "inactive", b.Properties(bed.WorkerUnit, "ActiveState")["ActiveState"])
	require.NoError(t, b.WriteFile(gateUp, nil, 0o644))
	require.NoError(t, <-started)
	assert.Less(t, when(b, d.Unit, "ActiveEnter"), when(b, bed.WorkerUnit, "InactiveExit"))

	run, worker := d.RunID(), b.Properties(bed.WorkerUnit, "InvocationID")
	require.NoError(t, b.Kill(t.Context(), d.Unit, 9))
	d.ReadyAgain(run)
	assert.Equal(t, worker, b.Properties(bed.WorkerUnit, "InvocationID"), "its end stops no worker")

	b.MustRun(t, "systemctl", "stop", bed.WorkerUnit, d.Unit)
	log, err := b.Journal(t.Context(), "--unit="+bed.WorkerUnit, "--unit="+d.Unit, "--output=cat", "--no-pager")
	require.NoError(t, err)
	stopped, stopping := strings.LastIndex(log, "Stopped "+bed.WorkerUnit), strings.LastIndex(log, "Stopping "+d.Unit)
	assert.True(t, stopped >= 0 && stopping > stopped, log)

	d.Write("command = [\"/bin/false\"]\n[probe]\ncheck = \"exec:false\"\n")
	b.MustRun(t, "systemctl", "start", bed.WorkerUnit)
	assert.NotEqual(t, "active", b.Properties(d.Unit, "ActiveState")["ActiveState"])
}

// With ready_requires the service, or one worker, follows the state of its dependency.
func TestReadyRequires(t *testing.T) { bed.BothSuites(t, testReadyRequires) }

func testReadyRequires(t *testing.T, suite string) {
	b, d := needingBed(t, suite, "", needsGate+"ready_requires = true\nready_timeout = \"100ms\"\nreset_after = \"1s\"\n")
	b.Start()
	_, r := b.Readyz()
	require.Len(t, r.Dependencies, 1)
	assert.Equal(t, probes.DependencyReady, r.Dependencies[0].Reason)
	assert.Equal(t, []string{bed.ProxyUnit}, r.Dependencies[0].RequiredBy)
	run := d.RunID()
	require.NoError(t, b.Kill(t.Context(), d.Unit, 9))
	d.ReadyAgain(run)
	r, _ = b.Until("counted", func(status int, r probes.Report) bool {
		return status == http.StatusOK && r.Dependencies[0].RestartsTotal == 1
	})
	assert.Equal(t, "SIGKILL", r.Dependencies[0].LastExit.Status)
	b.UntilUnit(d.Unit, "NRestarts", "0") // the daemon resets the delay after reset_after

	stopDependency(d)
	r, _ = b.Until("not ready", func(status int, r probes.Report) bool {
		return status == http.StatusServiceUnavailable && r.Dependencies[0].Reason == probes.DependencyStopped
	})
	assert.Equal(t, probes.DependencyNotReady, r.Health.Readiness.Reason)
	assert.Equal(t, "dependency gate: stopped; systemctl start "+d.Unit, r.Health.Readiness.Details)
	live, _ := b.Get("/livez")
	assert.Equal(t, http.StatusOK, live)
	status, _, answer := b.Chat(false, "hello")
	assert.Equal(t, http.StatusServiceUnavailable, status, answer)
	assert.Contains(t, b.MustRun(t, "codex-proxy", "status"), "dependency_not_ready")
	b.UntilStatus("dependency gate: stopped")
	d.Start()
	b.Until("ready again", bed.Ready)
	requireServes(b)

	// A reload takes over changes: the worker default requires it now, and b does not.
	bed.SecondWorker(b)
	require.NoError(t, b.WriteFile(bed.ConfigFile, nil, 0o644))
	require.NoError(t, b.WriteFile(bed.WorkerFile, []byte(needsGate+"ready_requires = true\n"+bed.RealWorker), 0o644))
	b.MustRun(t, "systemctl", "daemon-reload")
	b.MustRun(t, "systemctl", "start", "codex-worker@b.service")
	b.MustRun(t, "systemctl", "reload", bed.ProxyUnit)
	r, _ = b.Until("reloaded", func(_ int, r probes.Report) bool { return r.Dependencies[0].RequiredBy[0] == bed.WorkerUnit })
	assert.Equal(t, uint64(1), r.Dependencies[0].RestartsTotal, "the count outlives a reload")
	stopDependency(d)
	r, _ = b.Until("b serves alone", func(status int, r probes.Report) bool {
		return status == http.StatusOK && len(r.Workers) == 2 && r.Workers[1].Reason == probes.DependencyNotReady &&
			r.Workers[0].Ready
	})
	assert.Contains(t, r.Health.Readiness.Details, "worker default: dependency_not_ready: it requires gate")
	requireServes(b)
}

// requireServes asks for a completion, which must succeed.
func requireServes(b *bed.Bed) {
	b.T.Helper()
	status, _, answer := b.Chat(false, "hello")
	assert.Equal(b.T, http.StatusOK, status, answer)
}

// A bound worker stops with its dependency, its turns first, and starts with it again; an
// operator's stop holds.
func TestBindRequires(t *testing.T) { bed.BothSuites(t, testBindRequires) }

func testBindRequires(t *testing.T, suite string) {
	b, d := needingBed(t, suite, bindsGate, "")
	b.Start()
	crash := func() {
		t.Helper()
		run, worker := d.RunID(), b.Properties(bed.WorkerUnit, "InvocationID")
		killed := time.Now()
		require.NoError(t, b.Kill(t.Context(), d.Unit, 9))
		d.ReadyAgain(run)
		back := time.Since(killed)
		b.Until("ready again", func(status int, _ probes.Report) bool {
			return status == http.StatusOK && worker["InvocationID"] != b.Properties(bed.WorkerUnit, "InvocationID")["InvocationID"]
		})
		t.Logf("killed; dependency ready after %s, worker after %s", back, time.Since(killed))
	}
	crash()
	crash()
	requireServes(b)

	turn := bed.HoldSDK(b)
	run := d.RunID()
	require.NoError(t, b.Kill(t.Context(), d.Unit, 9))
	b.UntilUnit(bed.WorkerUnit, "ActiveState", "deactivating")
	b.Models.Release("finish")
	turn.Whole(t)
	d.ReadyAgain(run)
	b.Until("ready after the turn", bed.Ready)

	worker := b.Properties(bed.WorkerUnit, "InvocationID")["InvocationID"]
	b.MustRun(t, "systemctl", "restart", d.Unit)
	b.Until("ready after a restart", func(status int, _ probes.Report) bool {
		return status == http.StatusOK && worker != b.Properties(bed.WorkerUnit, "InvocationID")["InvocationID"]
	})

	b.MustRun(t, "systemctl", "stop", bed.WorkerUnit)
	run = d.RunID()
	require.NoError(t, b.Kill(t.Context(), d.Unit, 9))
	d.ReadyAgain(run)
	b.UntilUnit(d.Unit, "Job", "")
	assertStaysStopped(b, bed.WorkerUnit)

	b.MustRun(t, "systemctl", "start", "codex.target")
	b.Until("started", bed.Ready)
	stopDependency(d)
	b.UntilUnit(bed.WorkerUnit, "ActiveState", "inactive")
	r, _ := b.Until("stopped with it", func(_ int, r probes.Report) bool {
		return r.Health.Readiness.Reason == probes.DependencyNotReady &&
			r.Dependencies[0].Reason == probes.DependencyStopped
	})
	assert.Contains(t, r.Health.Readiness.Details, "systemctl start "+d.Unit)
	d.Start()
	assertStaysStopped(b, bed.WorkerUnit)

	// The first start of the dependency fails: the worker starts with the next one.
	stopDependency(d)
	d.Write(`command = ["/bin/sh", "-c", "test -e {state}/tried && touch {state}/up && exec sleep infinity; ` +
		`touch {state}/tried; exit 1"]
[probe]
check = "exec:test -e {state}/up"
`)
	_, _, err := b.Run(t.Context(), "systemctl", "start", bed.WorkerUnit)
	require.Error(t, err, "the job fails with the dependency's")
	b.UntilUnit(bed.WorkerUnit, "ActiveState", "active")
}

// assertStaysStopped asserts that no start of the unit is queued, after all jobs of systemd.
func assertStaysStopped(b *bed.Bed, unit string) {
	b.T.Helper()
	assert.Equal(b.T, map[string]string{"ActiveState": "inactive", "Job": ""}, b.Properties(unit, "ActiveState", "Job"))
}

// A bound service stops with its dependency and starts with it again.
func TestBindRequiresOfTheService(t *testing.T) { bed.BothSuites(t, testBindRequiresOfTheService) }

func testBindRequiresOfTheService(t *testing.T, suite string) {
	b, d := needingBed(t, suite, "", bindsGate)
	b.Start()
	run, pid := d.RunID(), b.ProxyPID()
	require.NoError(t, b.Kill(t.Context(), d.Unit, 9))
	d.ReadyAgain(run)
	b.UntilUnit(bed.ProxyUnit, "ActiveState", "active")
	b.Until("ready again", bed.Ready)
	assert.NotEqual(t, pid, b.ProxyPID())
	requireServes(b)
}
