package integration

import (
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// `systemctl start codex.target` returns after READY=1 of the proxy, which follows a
// real handshake with models.
func TestStart(t *testing.T) { bothSuites(t, testStart) }

func testStart(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.start()

	_, report := b.readyz()
	require.Len(t, report.Workers, 1)
	w := report.Workers[0]
	require.NotNil(t, w.Handshake)
	assert.Contains(t, w.Handshake.UserAgent, "0.169")
	assert.Equal(t, []string{model}, w.Handshake.Models)
	assert.Equal(t, "active", w.ActiveState)
	assert.Positive(t, w.StartupLatencyMS)

	entered := b.show(proxyUnit, "ActiveEnterTimestamp", "StatusText", "Type", "NRestarts")
	active := b.wallClock(proxyUnit, "ActiveEnterTimestamp")
	assert.False(t, active.Before(w.Handshake.At.Truncate(time.Microsecond)), "READY=1 before the handshake")
	assert.Equal(t, "Ready: 1 of 1 workers", entered["StatusText"])
	assert.Equal(t, "0", entered["NRestarts"])
	assert.Regexp(t, `^Ready: codex 0\.169\.0, 1 models?, started in `, b.show(workerUnit, "StatusText")["StatusText"])

	status := b.MustRun(t, "systemctl", "status", "--no-pager", proxyUnit, workerUnit)
	assert.Equal(t, 2, strings.Count(status, "Status: \"Ready:"), status)
	assert.NotContains(t, b.journal("codex*"), "level=ERROR")

	for path, want := range map[string]int{
		"/livez": 200, "/healthz": 200, "/health": 200, "/v1/models": 200, "/v1/models/": 200, "/openai/v1/models": 200,
		"/metrics/": 404, "/metrics": 200, "/nowhere": 404,
	} {
		code, body := b.get(path)
		assert.Equal(t, want, code, "%s: %s", path, body)
	}
	_, metrics := b.get("/metrics")
	assert.Contains(t, string(metrics), `codex_worker_ready{worker="default"} 1`)
	assert.Contains(t, string(metrics), "process_resident_memory_bytes", "ProcSubset=pid hides it")
	b.otherForms(t)
}

// `systemctl start codex-proxy` starts all units. A unit that is stopped later stays
// stopped, also when the proxy crashes or is restarted.
func TestStartOfTheService(t *testing.T) {
	bothSuites(t, func(t *testing.T, suite string) {
		b := newBed(t, suite, realWorker, "")
		b.MustRun(t, "systemctl", "start", "codex-proxy")
		status, _ := b.readyz()
		assert.Equal(t, http.StatusOK, status)
		b.untilShow("codex.target", "ActiveState", "active") // it follows the service

		// A proxy that starts beside a stopped worker waits for it in vain.
		require.NoError(t, b.WriteFile(configFile, []byte("start_timeout = \"1s\"\n"), 0o644))
		b.MustRun(t, "systemctl", "stop", workerUnit)
		b.MustRun(t, "systemctl", "kill", "--signal=KILL", proxyUnit)
		b.until("back", func(_ int, _ report) bool { return b.show(proxyUnit, "NRestarts")["NRestarts"] == "1" })
		b.assertStopped(workerUnit)
		b.MustRun(t, "systemctl", "restart", proxyUnit)
		b.assertStopped(workerUnit)
	})
}

// assertStopped also looks for a start that is still to come.
func (b *bed) assertStopped(unit string) {
	b.t.Helper()
	assert.Equal(b.t, "inactive", b.show(unit, "ActiveState")["ActiveState"])
	assert.NotContains(b.t, b.MustRun(b.t, "systemctl", "list-jobs", "--full", "--plain"), unit)
}

// The steps of the README for a server: codex on PATH, a login, and the shipped worker
// file.
func TestInstall(t *testing.T) { bothSuites(t, testInstall) }

func testInstall(t *testing.T, suite string) {
	b := newBed(t, suite, "", "")
	shipped, err := os.ReadFile("../../packaging/etc/workers/default.toml")
	require.NoError(t, err)
	require.NoError(t, b.WriteFile(workerFile, shipped, 0o644))
	b.MustRun(t, "ln", "-s", codexDir+"/bin/codex", "/usr/local/bin/codex")
	b.MustRun(t, "sh", "-c", "printf sk-test | codex-proxy accounts login --with-api-key")
	b.start()
	_, report := b.readyz()
	assert.Greater(t, len(report.Workers[0].Handshake.Models), 1, "codex's own models")
	assert.Equal(t, "enabled", trim(b.MustRun(t, "systemctl", "is-enabled", "codex.target")), "it starts at boot")
}

// A stop of the idle service ends every process of it, cleanly and quickly.
func TestStop(t *testing.T) { bothSuitesInTurn(t, testStop) }

func testStop(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.start()
	began := time.Now()
	b.MustRun(t, "systemctl", "stop", "codex.target")
	for _, unit := range []string{proxyUnit, workerUnit, "codex-proxy.socket", "codex-worker@default.socket"} {
		b.awaitInactive(unit) // systemctl waits only for the job of the target
	}
	t.Logf("stopped after %s", time.Since(began))
	assert.Less(t, time.Since(began), bound/2, "a codex that does not end has as long")

	for _, unit := range []string{proxyUnit, workerUnit} {
		processes, err := b.Processes(unit)
		require.NoError(t, err)
		assert.Empty(t, processes, unit)
		assert.Equal(t, "inactive", b.show(unit, "ActiveState")["ActiveState"], unit)
	}
	journal := b.journal("codex*")
	for _, line := range []string{
		"codex-proxy.service: Deactivated successfully", "codex-worker@default.service: Deactivated successfully",
	} {
		assert.Contains(t, journal, line)
	}
	assert.NotRegexp(t, regexp.MustCompile(`(?i)failed with result|timed out|killing`), journal)

	b.start() // and the service comes back

	b.MustRun(t, "systemctl", "stop", proxyUnit)
	b.http.CloseIdleConnections()
	status, _ := b.get("/livez")
	assert.Equal(t, http.StatusOK, status, "the socket is there, and starts it")
}

// Any number of restarts of the target brings all units back: they count toward no
// start limit, and the address is free.
func TestRestartsOfTheTarget(t *testing.T) {
	bothSuites(t, func(t *testing.T, suite string) {
		b := newBed(t, suite, realWorker, "")
		b.start()
		for range 10 {
			b.MustRun(t, "systemctl", "restart", "codex.target")
			b.http.CloseIdleConnections()
			status, report := b.readyz()
			require.Equal(t, http.StatusOK, status, "%+v", report)
		}
		assert.Empty(t, b.MustRun(t, "systemctl", "--failed", "--no-legend", "list-units", "codex*"))
	})
}

// awaitInactive waits for the end of a unit that is being stopped.
func (b *bed) awaitInactive(unit string) {
	b.t.Helper()
	for deadline := time.Now().Add(bound); b.show(unit, "ActiveState")["ActiveState"] != "inactive"; {
		require.True(b.t, time.Now().Before(deadline), "%s never stops", unit)
	}
}

// wallClock reads a timestamp of a unit with its microseconds.
func (b *bed) wallClock(unit, property string) time.Time {
	b.t.Helper()
	out := b.MustRun(b.t, "systemctl", "show", "--timestamp=us+utc", "--property="+property, "--value", unit)
	at, err := time.Parse("Mon 2006-01-02 15:04:05.999999 MST", strings.TrimSpace(out))
	require.NoError(b.t, err)
	return at
}

func seconds(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s, 64)
	require.NoError(t, err)
	return v
}
