package proxy

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/codexes"
)

// `systemctl start codex.target` returns after READY=1 of the proxy, which follows a
// real handshake with models.
func TestStart(t *testing.T) { bed.BothSuites(t, testStart) }

func testStart(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()

	_, report := b.Readyz()
	require.Len(t, report.Workers, 1)
	w := report.Workers[0]
	require.NotNil(t, w.Handshake)
	assert.Contains(t, w.Handshake.UserAgent, codexes.Pinned(t))
	assert.Equal(t, []string{bed.Model}, w.Handshake.Models)
	assert.Equal(t, "active", w.ActiveState)
	assert.Positive(t, w.StartupLatencyMS)

	entered := b.Properties(bed.ProxyUnit, "ActiveEnterTimestamp", "StatusText", "Type", "NRestarts")
	active := wallClock(b, bed.ProxyUnit, "ActiveEnterTimestamp")
	assert.False(t, active.Before(w.Handshake.At.Truncate(time.Microsecond)), "READY=1 before the handshake")
	assert.Equal(t, "Ready: 1 of 1 workers", entered["StatusText"])
	assert.Equal(t, "0", entered["NRestarts"])
	assert.Regexp(t, `^Ready: codex `+regexp.QuoteMeta(codexes.Pinned(t))+`, 1 models?, started in `, b.Properties(bed.WorkerUnit, "StatusText")["StatusText"])

	status := b.MustRun(t, "systemctl", "status", "--no-pager", bed.ProxyUnit, bed.WorkerUnit)
	assert.Equal(t, 2, strings.Count(status, "Status: \"Ready:"), status)
	assert.NotContains(t, b.UnitJournal("codex*"), "level=ERROR")

	for path, want := range map[string]int{
		"/livez": 200, "/healthz": 200, "/health": 200, "/v1/models": 200, "/v1/models/": 200, "/openai/v1/models": 200,
		"/metrics/": 404, "/metrics": 200, "/nowhere": 404,
	} {
		code, body := b.Get(path)
		assert.Equal(t, want, code, "%s: %s", path, body)
	}
	_, metrics := b.Get("/metrics")
	assert.Contains(t, string(metrics), `codex_worker_ready{worker="default"} 1`)
	assert.Contains(t, string(metrics), "process_resident_memory_bytes", "ProcSubset=pid hides it")
	otherForms(b, t)
}

// `systemctl start codex-proxy` starts all units. A unit that is stopped later stays
// stopped, also when the proxy crashes or is restarted.
func TestStartOfTheService(t *testing.T) {
	bed.BothSuites(t, func(t *testing.T, suite string) {
		b := bed.New(t, suite, bed.RealWorker, "")
		b.MustRun(t, "systemctl", "start", "codex-proxy")
		status, _ := b.Readyz()
		assert.Equal(t, http.StatusOK, status)
		b.UntilShow("codex.target", "ActiveState", "active") // it follows the service

		// A proxy that starts beside a stopped worker waits for it in vain.
		require.NoError(t, b.WriteFile(bed.ConfigFile, []byte("start_timeout = \"1s\"\n"), 0o644))
		b.MustRun(t, "systemctl", "stop", bed.WorkerUnit)
		b.MustRun(t, "systemctl", "kill", "--signal=KILL", bed.ProxyUnit)
		b.Until("back", func(_ int, _ bed.Report) bool { return b.Properties(bed.ProxyUnit, "NRestarts")["NRestarts"] == "1" })
		assertStopped(b, bed.WorkerUnit)
		b.MustRun(t, "systemctl", "restart", bed.ProxyUnit)
		assertStopped(b, bed.WorkerUnit)
	})
}

// assertStopped also looks for a start that is still to come.
func assertStopped(b *bed.Bed, unit string) {
	b.T.Helper()
	assert.Equal(b.T, "inactive", b.Properties(unit, "ActiveState")["ActiveState"])
	assert.NotContains(b.T, b.MustRun(b.T, "systemctl", "list-jobs", "--full", "--plain"), unit)
}

// The steps of the README for a server: codex on PATH, a login, and the shipped worker
// file.
func TestInstall(t *testing.T) { bed.BothSuites(t, testInstall) }

func testInstall(t *testing.T, suite string) {
	b := bed.New(t, suite, "", "")
	shipped, err := os.ReadFile("../../../packaging/etc/workers/default.toml")
	require.NoError(t, err)
	require.NoError(t, b.WriteFile(bed.WorkerFile, shipped, 0o644))
	b.MustRun(t, "ln", "-s", bed.CodexDir+"/bin/codex", "/usr/local/bin/codex")
	b.MustRun(t, "sh", "-c", "printf sk-test | codex-proxy accounts login --with-api-key")
	b.Start()
	_, report := b.Readyz()
	assert.Greater(t, len(report.Workers[0].Handshake.Models), 1, "codex's own models")
	assert.Equal(t, "enabled", bed.Trim(b.MustRun(t, "systemctl", "is-enabled", "codex.target")), "it starts at boot")
}

// A stop of the idle service ends every process of it, cleanly and quickly.
func TestStop(t *testing.T) { bed.BothSuites(t, testStop) }

func testStop(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	began := time.Now()
	b.MustRun(t, "systemctl", "stop", "codex.target")
	for _, unit := range []string{bed.ProxyUnit, bed.WorkerUnit, "codex-proxy.socket", "codex-worker@default.socket"} {
		b.AwaitInactive(unit) // systemctl waits only for the job of the target
	}
	t.Logf("stopped after %s", time.Since(began))
	assert.Less(t, time.Since(began), bed.Bound/2, "a codex that does not end has as long")

	for _, unit := range []string{bed.ProxyUnit, bed.WorkerUnit} {
		processes, err := b.Processes(unit)
		require.NoError(t, err)
		assert.Empty(t, processes, unit)
		assert.Equal(t, "inactive", b.Properties(unit, "ActiveState")["ActiveState"], unit)
	}
	journal := b.UnitJournal("codex*")
	for _, line := range []string{
		"codex-proxy.service: Deactivated successfully", "codex-worker@default.service: Deactivated successfully",
	} {
		assert.Contains(t, journal, line)
	}
	assert.NotRegexp(t, regexp.MustCompile(`(?i)failed with result|timed out|killing`), journal)

	b.Start() // and the service comes back

	b.MustRun(t, "systemctl", "stop", bed.ProxyUnit)
	b.HTTP.CloseIdleConnections()
	status, _ := b.Get("/livez")
	assert.Equal(t, http.StatusOK, status, "the socket is there, and starts it")
}

// Any number of restarts of the target brings all units back: they count toward no
// start limit, and the address is free.
func TestRestartsOfTheTarget(t *testing.T) {
	bed.BothSuites(t, func(t *testing.T, suite string) {
		b := bed.New(t, suite, bed.RealWorker, "")
		b.Start()
		for range 10 {
			b.MustRun(t, "systemctl", "restart", "codex.target")
			b.HTTP.CloseIdleConnections()
			status, report := b.Readyz()
			require.Equal(t, http.StatusOK, status, "%+v", report)
		}
		assert.Empty(t, b.MustRun(t, "systemctl", "--failed", "--no-legend", "list-units", "codex*"))
	})
}

// wallClock reads a timestamp of a unit with its microseconds.
func wallClock(b *bed.Bed, unit, property string) time.Time {
	b.T.Helper()
	out := b.MustRun(b.T, "systemctl", "show", "--timestamp=us+utc", "--property="+property, "--value", unit)
	at, err := time.Parse("Mon 2006-01-02 15:04:05.999999 MST", strings.TrimSpace(out))
	require.NoError(b.T, err)
	return at
}
