package proxy

import (
	"context"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/probes"
	"codex-proxy/test/bed"
	"codex-proxy/test/nightly"
)

// shortWatchdog keeps tests of hung processes short, if the shipped WatchdogSec= is
// longer. A third of it is the bound of a check, which a busy machine must not exceed.
const shortWatchdog = "[Service]\nWatchdogSec=6s\n"

// shortTimeouts are the settings that go with it.
const shortTimeouts = "handshake_timeout = \"2s\"\nstart_timeout = \"1s\"\n"

// The journal names each stopped loop of the proxy; then systemd kills the proxy with a
// goroutine dump and starts it again, and the worker does not notice.
func TestWatchdog(t *testing.T) {
	bed.BothSuites(t, testWatchdog)
}

func testWatchdog(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, shortTimeouts)
	installFaulty(b)
	startShort(b)
	worker := b.Codex()
	for _, tc := range []struct {
		loop    string
		culprit string
		meet    func() // brings the loop to its fault point
	}{
		{loop: "accept", culprit: "the loop that accepts on 127.0.0.1:8787 does not answer"},
		{loop: "handler", culprit: "the HTTP handlers do not answer GET /livez"},
		{loop: "watcher", culprit: "the unit watcher's loop does not answer", meet: func() {
			b.MustRun(t, "systemctl", "restart", "dbus.service")
		}},
		{loop: "worker", culprit: "the loop of worker default does not answer"},
		{loop: "reader", culprit: "the connection of worker default: the reading loop has been at one message for",
			meet: func() { anyMessage(b) }},
	} {
		t.Run(tc.loop, func(t *testing.T) {
			b := &bed.Bed{Machine: b.Machine, T: t, HTTP: b.HTTP, Models: b.Models}
			b.DropIn(bed.ProxyUnit, "fault", shortWatchdog+"Environment=CODEX_PROXY_FAULT="+tc.loop+"\n")
			b.MustRun(t, "systemctl", "restart", bed.ProxyUnit)
			b.Until("ready", bed.Ready)
			before := b.Properties(bed.ProxyUnit, "InvocationID")["InvocationID"]
			dumps := strings.Count(b.UnitJournal(bed.ProxyUnit), "SIGABRT: abort")
			stopped := b.Signal(b.OnlyProcess(bed.ProxyUnit), unix.SIGUSR1)
			if tc.meet != nil {
				tc.meet()
			}
			if tc.loop == "watcher" || tc.loop == "worker" { // the HTTP server still answers
				r, _ := b.Until("stuck", func(_ int, r bed.Report) bool { return !r.Health.Liveness.Live })
				assert.Equal(t, probes.Stuck, r.Health.Liveness.Reason)
				assert.Contains(t, r.Health.Readiness.Details, tc.culprit)
			}
			b.UntilShow(bed.ProxyUnit, "NRestarts", "1")
			b.Until("ready", bed.Ready)
			t.Logf("stopped to ready again %s", time.Since(stopped).Round(time.Millisecond))
			assert.Equal(t, worker, b.Codex(), "the worker must not notice")

			journal := invocation(b, before)
			withheld := ""
			for l := range strings.Lines(journal) {
				if strings.Contains(l, "watchdog: pings withheld") {
					withheld += l
				}
			}
			assert.Contains(t, withheld, tc.culprit)
			assert.Equal(t, 1, strings.Count(withheld, "does not answer")+strings.Count(withheld, "do not answer")+
				strings.Count(withheld, "has been at one message"), "innocent loops are named, too: %s", withheld)
			// journald may attribute the dump to the next invocation.
			all := b.UnitJournal(bed.ProxyUnit)
			assert.Equal(t, dumps+1, strings.Count(all, "SIGABRT: abort"))
			assert.Contains(t, all, "goroutine ")
			assert.Contains(t, all, "Watchdog timeout")
		})
	}
}

// A panic outside any request ends the proxy, not the workers, and refuses no client.
func TestPanic(t *testing.T) { bed.BothSuites(t, testPanic) }

func testPanic(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	installFaulty(b)
	b.DropIn(bed.ProxyUnit, "fault", shortWatchdog+"Environment=CODEX_PROXY_FAULT=worker\n") // a watchdog pass reaches it
	b.Start()
	worker := b.Codex()
	ctx, stop := context.WithCancel(t.Context())
	opened := connecting(b, ctx)
	var back bed.Sample
	panics := nightly.Or(5, 3)
	for range panics {
		proxy := b.OnlyProcess(bed.ProxyUnit)
		b.Signal(proxy, unix.SIGUSR2)
		died := b.AwaitDeath(proxy)
		b.HTTP.CloseIdleConnections()
		_, at := b.Until("ready", bed.Ready)
		back = append(back, at.Sub(died))
	}
	stop()
	t.Logf("%d panics: ready again %s; %d connections made meanwhile", panics, back, <-opened)
	assert.Less(t, back.Best(), bed.Slowest*300*time.Millisecond)
	assert.Equal(t, worker, b.Codex(), "the worker must not notice")
	assert.Equal(t, strconv.Itoa(panics), b.Properties(bed.ProxyUnit, "NRestarts")["NRestarts"])
	assert.Equal(t, panics, strings.Count(b.UnitJournal(bed.ProxyUnit), "panic: fault injected into worker"))
}

// anyMessage makes the worker send something. No caller waits for the answer, which
// never comes.
func anyMessage(b *bed.Bed) {
	require.NoError(b.T, b.Models.Script("text hello"))
	b.MustRun(b.T, "sh", "-c", `curl --silent --max-time 5 --json '{"model":"`+bed.Model+
		`","messages":[{"role":"user","content":"hi"}]}' `+bed.Base+`/v1/chat/completions || true`)
}

// A worker whose unit is active and whose socket refuses the proxy is a fault of the
// proxy, worth one restart. If that does not mend it, another would not.
func TestWatchdogUnreachable(t *testing.T) {
	bed.BothSuites(t, testWatchdogUnreachable)
}

func testWatchdogUnreachable(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, shortTimeouts)
	b.DropIn(bed.ProxyUnit, "watchdog", shortWatchdog)
	startShort(b)
	b.MustRun(t, "chmod", "0600", "/run/codex-proxy/default.sock")
	b.MustRun(t, "systemctl", "restart", bed.WorkerUnit)
	worker := b.Codex()
	b.UntilShow(bed.ProxyUnit, "NRestarts", "1")
	assert.Contains(t, b.UnitJournal(bed.ProxyUnit), "worker default cannot be reached: its unit is active and cannot be connected to for")

	// Pings go on for longer than it took to detect the fault the first time.
	const long = 12 * time.Second
	b.UntilShown(bed.ProxyUnit, func(v map[string]string) bool {
		return usec(b, v["WatchdogTimestampMonotonic"])-usec(b, v["ActiveEnterTimestampMonotonic"]) > long
	}, "WatchdogTimestampMonotonic", "ActiveEnterTimestampMonotonic")
	assert.Equal(t, "1", b.Properties(bed.ProxyUnit, "NRestarts")["NRestarts"])
	status, _ := b.Readyz()
	assert.Equal(t, http.StatusServiceUnavailable, status)

	b.MustRun(t, "chmod", "0660", "/run/codex-proxy/default.sock")
	b.Until("ready", bed.Ready)
	assert.Equal(t, "1", b.Properties(bed.ProxyUnit, "NRestarts")["NRestarts"])
	assert.Equal(t, worker, b.Codex())
}

// A worker that is down or hangs is no fault of the proxy.
func TestWatchdogIsNotForWorkers(t *testing.T) {
	bed.BothSuites(t, testWatchdogIsNotForWorkers)
}

func testWatchdogIsNotForWorkers(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, shortTimeouts)
	b.DropIn(bed.ProxyUnit, "watchdog", shortWatchdog)
	b.DropIn(bed.WorkerUnit, "watchdog", "[Service]\nWatchdogSec=0\n")
	startShort(b)
	b.Signal(b.Codex(), unix.SIGSTOP)
	// The next connection meets a relay that accepts, and no codex behind it.
	require.NoError(t, b.Kill(t.Context(), bed.ProxyUnit, unix.SIGKILL))
	b.UntilShow(bed.ProxyUnit, "NRestarts", "1")
	const long = 12 * time.Second
	b.UntilShown(bed.ProxyUnit, func(v map[string]string) bool {
		return usec(b, v["WatchdogTimestampMonotonic"])-usec(b, v["ActiveEnterTimestampMonotonic"]) > long
	}, "WatchdogTimestampMonotonic", "ActiveEnterTimestampMonotonic")
	assert.NotContains(t, b.UnitJournal(bed.ProxyUnit), "pings withheld")
	b.MustRun(t, "systemctl", "kill", "--signal=KILL", bed.WorkerUnit)
	b.Until("ready", bed.Ready)
	assert.Equal(t, "1", b.Properties(bed.ProxyUnit, "NRestarts")["NRestarts"])
}

// installFaulty replaces the installed program by one whose loops can be stopped.
func installFaulty(b *bed.Bed) {
	b.T.Helper()
	program := filepath.Join(b.T.TempDir(), "codex-proxy")
	require.NoError(b.T, bed.Build(b.T.Context(), program, "faultinject", "codex-proxy/cmd/codex-proxy"))
	require.NoError(b.T, b.CopyIn(program, "/usr/bin/codex-proxy.faulty"))
	b.MustRun(b.T, "mv", "/usr/bin/codex-proxy.faulty", "/usr/bin/codex-proxy")
}

// invocation is the journal of one run of a unit's processes.
func invocation(b *bed.Bed, id string) string {
	b.T.Helper()
	out, err := b.Journal(b.T.Context(), "--output=cat", "_SYSTEMD_INVOCATION_ID="+id)
	require.NoError(b.T, err)
	return out
}

func usec(b *bed.Bed, s string) time.Duration {
	b.T.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	require.NoError(b.T, err)
	return time.Duration(n) * time.Microsecond
}
