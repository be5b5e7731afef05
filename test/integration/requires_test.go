package integration

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/probes"
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
func needingBed(t *testing.T, suite, worker, config string) (*bed, dependency) {
	t.Helper()
	b := newBed(t, suite, worker+realWorker, config)
	require.NoError(t, b.WriteFile(gateUp, nil, 0o644))
	return b, b.dependency("gate", gateFile)
}

// untilUnit waits until the property has the value.
func (b *bed) untilUnit(unit, property, value string) {
	b.t.Helper()
	deadline := time.Now().Add(bound)
	for b.show(unit, property)[property] != value {
		require.True(b.t, time.Now().Before(deadline), "%s never had %s=%s: %v\n%s", unit, property, value,
			b.show(unit, property, "SubState", "StatusText"), b.journal(unit))
		pause(b.t.Context(), 20*time.Millisecond)
	}
}

// when is a time of the unit since the boot, in microseconds.
func (b *bed) when(unit, change string) int64 {
	b.t.Helper()
	property := change + "TimestampMonotonic"
	usec, err := strconv.ParseInt(b.show(unit, property)[property], 10, 64)
	require.NoError(b.t, err)
	return usec
}

// A worker starts after its dependency is ready, and also without one that does not start;
// it stops before it.
func TestRequires(t *testing.T) { bothSuites(t, testRequires) }

func testRequires(t *testing.T, suite string) {
	b, d := needingBed(t, suite, needsGate, "")
	b.MustRun(t, "rm", gateUp)
	started := b.begin("systemctl", "start", workerUnit)
	for deadline := time.Now().Add(bound); len(d.servers()) != 1; pause(t.Context(), 20*time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "the dependency never ran\n%s", b.journal(d.unit))
	}
	assert.Equal(t, "start", b.show(d.unit, "SubState")["SubState"], "it runs, and is not ready")
	assert.Equal(t, "inactive", b.show(workerUnit, "ActiveState")["ActiveState"])
	require.NoError(t, b.WriteFile(gateUp, nil, 0o644))
	require.NoError(t, <-started)
	assert.Less(t, b.when(d.unit, "ActiveEnter"), b.when(workerUnit, "InactiveExit"))

	run, worker := d.run(), b.show(workerUnit, "InvocationID")
	require.NoError(t, b.Kill(t.Context(), d.unit, 9))
	d.readyAgain(run)
	assert.Equal(t, worker, b.show(workerUnit, "InvocationID"), "its end stops no worker")

	b.MustRun(t, "systemctl", "stop", workerUnit, d.unit)
	log, err := b.Journal(t.Context(), "--unit="+workerUnit, "--unit="+d.unit, "--output=cat", "--no-pager")
	require.NoError(t, err)
	stopped, stopping := strings.LastIndex(log, "Stopped "+workerUnit), strings.LastIndex(log, "Stopping "+d.unit)
	assert.True(t, stopped >= 0 && stopping > stopped, log)

	d.write("command = [\"/bin/false\"]\n[probe]\ncheck = \"exec:false\"\n")
	b.MustRun(t, "systemctl", "start", workerUnit)
	assert.NotEqual(t, "active", b.show(d.unit, "ActiveState")["ActiveState"])
}

// With ready_requires the service, or one worker, follows the state of its dependency.
func TestReadyRequires(t *testing.T) { bothSuites(t, testReadyRequires) }

func testReadyRequires(t *testing.T, suite string) {
	b, d := needingBed(t, suite, "", needsGate+"ready_requires = true\nready_timeout = \"100ms\"\nreset_after = \"1s\"\n")
	b.start()
	_, r := b.readyz()
	require.Len(t, r.Dependencies, 1)
	assert.Equal(t, probes.DependencyReady, r.Dependencies[0].Reason)
	assert.Equal(t, []string{proxyUnit}, r.Dependencies[0].RequiredBy)
	run := d.run()
	require.NoError(t, b.Kill(t.Context(), d.unit, 9))
	d.readyAgain(run)
	r, _ = b.until("counted", func(status int, r probes.Report) bool {
		return status == http.StatusOK && r.Dependencies[0].RestartsTotal == 1
	})
	assert.Equal(t, "SIGKILL", r.Dependencies[0].LastExit.Status)
	b.untilUnit(d.unit, "NRestarts", "0") // the daemon resets the delay after reset_after

	d.stop()
	r, _ = b.until("not ready", func(status int, r probes.Report) bool {
		return status == http.StatusServiceUnavailable && r.Dependencies[0].Reason == probes.DependencyStopped
	})
	assert.Equal(t, probes.DependencyNotReady, r.Health.Readiness.Reason)
	assert.Equal(t, "dependency gate: stopped; systemctl start "+d.unit, r.Health.Readiness.Details)
	live, _ := b.get("/livez")
	assert.Equal(t, http.StatusOK, live)
	status, _, answer := b.chat(false, "hello")
	assert.Equal(t, http.StatusServiceUnavailable, status, answer)
	assert.Contains(t, b.MustRun(t, "codex-proxy", "status"), "dependency_not_ready")
	b.untilStatus("dependency gate: stopped")
	d.start()
	b.until("ready again", ready)
	b.serves()

	// A reload takes over changes: the worker default requires it now, and b does not.
	b.second()
	require.NoError(t, b.WriteFile(configFile, nil, 0o644))
	require.NoError(t, b.WriteFile(workerFile, []byte(needsGate+"ready_requires = true\n"+realWorker), 0o644))
	b.MustRun(t, "systemctl", "daemon-reload")
	b.MustRun(t, "systemctl", "start", "codex-worker@b.service")
	b.MustRun(t, "systemctl", "reload", proxyUnit)
	r, _ = b.until("reloaded", func(_ int, r probes.Report) bool { return r.Dependencies[0].RequiredBy[0] == workerUnit })
	assert.Equal(t, uint64(1), r.Dependencies[0].RestartsTotal, "the count outlives a reload")
	d.stop()
	r, _ = b.until("b serves alone", func(status int, r probes.Report) bool {
		return status == http.StatusOK && len(r.Workers) == 2 && r.Workers[1].Reason == probes.DependencyNotReady &&
			r.Workers[0].Ready
	})
	assert.Contains(t, r.Health.Readiness.Details, "worker default: dependency_not_ready: it requires gate")
	b.serves()
}

// serves asks for a completion, which must succeed.
func (b *bed) serves() {
	b.t.Helper()
	status, _, answer := b.chat(false, "hello")
	assert.Equal(b.t, http.StatusOK, status, answer)
}

// A bound worker stops with its dependency, its turns first, and starts with it again; an
// operator's stop holds.
func TestBindRequires(t *testing.T) { bothSuites(t, testBindRequires) }

func testBindRequires(t *testing.T, suite string) {
	b, d := needingBed(t, suite, bindsGate, "")
	b.start()
	crash := func() {
		t.Helper()
		run, worker := d.run(), b.show(workerUnit, "InvocationID")
		killed := time.Now()
		require.NoError(t, b.Kill(t.Context(), d.unit, 9))
		d.readyAgain(run)
		back := time.Since(killed)
		b.until("ready again", func(status int, _ probes.Report) bool {
			return status == http.StatusOK && worker["InvocationID"] != b.show(workerUnit, "InvocationID")["InvocationID"]
		})
		t.Logf("killed; dependency ready after %s, worker after %s", back, time.Since(killed))
	}
	crash()
	crash()
	b.serves()

	turn := b.holdSDK()
	run := d.run()
	require.NoError(t, b.Kill(t.Context(), d.unit, 9))
	b.untilUnit(workerUnit, "ActiveState", "deactivating")
	b.models.Release("finish")
	turn.whole(t)
	d.readyAgain(run)
	b.until("ready after the turn", ready)

	worker := b.show(workerUnit, "InvocationID")["InvocationID"]
	b.MustRun(t, "systemctl", "restart", d.unit)
	b.until("ready after a restart", func(status int, _ probes.Report) bool {
		return status == http.StatusOK && worker != b.show(workerUnit, "InvocationID")["InvocationID"]
	})

	b.MustRun(t, "systemctl", "stop", workerUnit)
	run = d.run()
	require.NoError(t, b.Kill(t.Context(), d.unit, 9))
	d.readyAgain(run)
	b.untilUnit(d.unit, "Job", "")
	b.assertStaysStopped(workerUnit)

	b.MustRun(t, "systemctl", "start", "codex.target")
	b.until("started", ready)
	d.stop()
	b.untilUnit(workerUnit, "ActiveState", "inactive")
	r, _ := b.until("stopped with it", func(_ int, r probes.Report) bool {
		return r.Health.Readiness.Reason == probes.DependencyNotReady &&
			r.Dependencies[0].Reason == probes.DependencyStopped
	})
	assert.Contains(t, r.Health.Readiness.Details, "systemctl start "+d.unit)
	d.start()
	b.assertStaysStopped(workerUnit)

	// The first start of the dependency fails: the worker starts with the next one.
	d.stop()
	d.write(`command = ["/bin/sh", "-c", "test -e {state}/tried && touch {state}/up && exec sleep infinity; ` +
		`touch {state}/tried; exit 1"]
[probe]
check = "exec:test -e {state}/up"
`)
	_, _, err := b.Run(t.Context(), "systemctl", "start", workerUnit)
	require.Error(t, err, "the job fails with the dependency's")
	b.untilUnit(workerUnit, "ActiveState", "active")
}

// assertStaysStopped asserts that no start of the unit is queued, after all jobs of systemd.
func (b *bed) assertStaysStopped(unit string) {
	b.t.Helper()
	assert.Equal(b.t, map[string]string{"ActiveState": "inactive", "Job": ""}, b.show(unit, "ActiveState", "Job"))
}

// A bound service stops with its dependency and starts with it again.
func TestBindRequiresOfTheService(t *testing.T) { bothSuites(t, testBindRequiresOfTheService) }

func testBindRequiresOfTheService(t *testing.T, suite string) {
	b, d := needingBed(t, suite, "", bindsGate)
	b.start()
	run, pid := d.run(), b.mainPID()
	require.NoError(t, b.Kill(t.Context(), d.unit, 9))
	d.readyAgain(run)
	b.untilUnit(proxyUnit, "ActiveState", "active")
	b.until("ready again", ready)
	assert.NotEqual(t, pid, b.mainPID())
	b.serves()
}
