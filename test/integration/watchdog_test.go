package integration

import (
	"context"
	"errors"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/probes"
	"codex-proxy/test/machine"
)

// shortWatchdog keeps tests of hung processes short, if the shipped WatchdogSec= is
// longer. A third of it is the bound of a check, which a busy machine must not exceed.
const shortWatchdog = "[Service]\nWatchdogSec=6s\n"

// shortTimeouts are the settings that go with it.
const shortTimeouts = "handshake_timeout = \"2s\"\nstart_timeout = \"1s\"\n"

// The journal names each stopped loop of the proxy; then systemd kills the proxy with a
// goroutine dump and starts it again, and the worker does not notice.
func TestWatchdog(t *testing.T) {
	bothSuites(t, testWatchdog)
}

func testWatchdog(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, shortTimeouts)
	b.installFaulty()
	b.startShort()
	worker := b.codex()
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
			meet: b.anyMessage},
	} {
		t.Run(tc.loop, func(t *testing.T) {
			b := &bed{Machine: b.Machine, t: t, http: b.http, models: b.models}
			b.dropIn(proxyUnit, "fault", shortWatchdog+"Environment=CODEX_PROXY_FAULT="+tc.loop+"\n")
			b.MustRun(t, "systemctl", "restart", proxyUnit)
			b.until("ready", ready)
			before := b.show(proxyUnit, "InvocationID")["InvocationID"]
			dumps := strings.Count(b.journal(proxyUnit), "SIGABRT: abort")
			stopped := b.signal(b.onlyProcess(proxyUnit), unix.SIGUSR1)
			if tc.meet != nil {
				tc.meet()
			}
			if tc.loop == "watcher" || tc.loop == "worker" { // the HTTP server still answers
				r, _ := b.until("stuck", func(_ int, r report) bool { return !r.Health.Liveness.Live })
				assert.Equal(t, probes.Stuck, r.Health.Liveness.Reason)
				assert.Contains(t, r.Health.Readiness.Details, tc.culprit)
			}
			b.untilShow(proxyUnit, "NRestarts", "1")
			b.until("ready", ready)
			t.Logf("stopped to ready again %s", time.Since(stopped).Round(time.Millisecond))
			assert.Equal(t, worker, b.codex(), "the worker must not notice")

			journal := b.invocation(before)
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
			all := b.journal(proxyUnit)
			assert.Equal(t, dumps+1, strings.Count(all, "SIGABRT: abort"))
			assert.Contains(t, all, "goroutine ")
			assert.Contains(t, all, "Watchdog timeout")
		})
	}
}

// A panic outside any request ends the proxy, not the workers, and refuses no client.
func TestPanic(t *testing.T) { bothSuitesInTurn(t, testPanic) }

func testPanic(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.installFaulty()
	b.dropIn(proxyUnit, "fault", shortWatchdog+"Environment=CODEX_PROXY_FAULT=worker\n") // a watchdog pass reaches it
	b.start()
	worker := b.codex()
	ctx, stop := context.WithCancel(t.Context())
	opened := b.connecting(ctx)
	var back sample
	const panics = 5
	for range panics {
		proxy := b.onlyProcess(proxyUnit)
		b.signal(proxy, unix.SIGUSR2)
		died := b.awaitDeath(proxy)
		b.http.CloseIdleConnections()
		_, at := b.until("ready", ready)
		back = append(back, at.Sub(died))
	}
	stop()
	t.Logf("%d panics: ready again %s; %d connections made meanwhile", panics, back, <-opened)
	assert.Less(t, back.best(), slowest*300*time.Millisecond)
	assert.Equal(t, worker, b.codex(), "the worker must not notice")
	assert.Equal(t, strconv.Itoa(panics), b.show(proxyUnit, "NRestarts")["NRestarts"])
	assert.Equal(t, panics, strings.Count(b.journal(proxyUnit), "panic: fault injected into worker"))
}

// awaitDeath returns when a process has ended, see pidfd_open(2).
func (b *bed) awaitDeath(p machine.Process) time.Time {
	b.t.Helper()
	fd, err := unix.PidfdOpen(p.Host, 0)
	if errors.Is(err, unix.ESRCH) {
		return time.Now()
	}
	require.NoError(b.t, err)
	defer unix.Close(fd)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(bound.Milliseconds()))
	require.NoError(b.t, err)
	require.Equal(b.t, 1, n, "the process does not end")
	return time.Now()
}

// anyMessage makes the worker send something. No caller waits for the answer, which
// never comes.
func (b *bed) anyMessage() {
	require.NoError(b.t, b.models.Script("text hello"))
	b.MustRun(b.t, "sh", "-c", `curl --silent --max-time 5 --json '{"model":"`+model+
		`","messages":[{"role":"user","content":"hi"}]}' `+base+`/v1/chat/completions || true`)
}

// A worker whose unit is active and whose socket refuses the proxy is a fault of the
// proxy, worth one restart. If that does not mend it, another would not.
func TestWatchdogUnreachable(t *testing.T) {
	bothSuites(t, testWatchdogUnreachable)
}

func testWatchdogUnreachable(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, shortTimeouts)
	b.dropIn(proxyUnit, "watchdog", shortWatchdog)
	b.startShort()
	b.MustRun(t, "chmod", "0600", "/run/codex-proxy/default.sock")
	b.MustRun(t, "systemctl", "restart", workerUnit)
	worker := b.codex()
	b.untilShow(proxyUnit, "NRestarts", "1")
	assert.Contains(t, b.journal(proxyUnit), "worker default cannot be reached: its unit is active and cannot be connected to for")

	// Pings go on for longer than it took to detect the fault the first time.
	const long = 12 * time.Second
	b.untilShown(proxyUnit, func(v map[string]string) bool {
		return b.usec(v["WatchdogTimestampMonotonic"])-b.usec(v["ActiveEnterTimestampMonotonic"]) > long
	}, "WatchdogTimestampMonotonic", "ActiveEnterTimestampMonotonic")
	assert.Equal(t, "1", b.show(proxyUnit, "NRestarts")["NRestarts"])
	status, _ := b.readyz()
	assert.Equal(t, http.StatusServiceUnavailable, status)

	b.MustRun(t, "chmod", "0660", "/run/codex-proxy/default.sock")
	b.until("ready", ready)
	assert.Equal(t, "1", b.show(proxyUnit, "NRestarts")["NRestarts"])
	assert.Equal(t, worker, b.codex())
}

// A worker that is down or hangs is no fault of the proxy.
func TestWatchdogIsNotForWorkers(t *testing.T) {
	bothSuites(t, testWatchdogIsNotForWorkers)
}

func testWatchdogIsNotForWorkers(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, shortTimeouts)
	b.dropIn(proxyUnit, "watchdog", shortWatchdog)
	b.dropIn(workerUnit, "watchdog", "[Service]\nWatchdogSec=0\n")
	b.startShort()
	b.signal(b.codex(), unix.SIGSTOP)
	// The next connection meets a relay that accepts, and no codex behind it.
	require.NoError(t, b.Kill(t.Context(), proxyUnit, unix.SIGKILL))
	b.untilShow(proxyUnit, "NRestarts", "1")
	const long = 12 * time.Second
	b.untilShown(proxyUnit, func(v map[string]string) bool {
		return b.usec(v["WatchdogTimestampMonotonic"])-b.usec(v["ActiveEnterTimestampMonotonic"]) > long
	}, "WatchdogTimestampMonotonic", "ActiveEnterTimestampMonotonic")
	assert.NotContains(t, b.journal(proxyUnit), "pings withheld")
	b.MustRun(t, "systemctl", "kill", "--signal=KILL", workerUnit)
	b.until("ready", ready)
	assert.Equal(t, "1", b.show(proxyUnit, "NRestarts")["NRestarts"])
}

// installFaulty replaces the installed program by one whose loops can be stopped.
func (b *bed) installFaulty() {
	b.t.Helper()
	program := filepath.Join(b.t.TempDir(), "codex-proxy")
	build := exec.CommandContext(b.t.Context(), "go", "build", "-tags=faultinject", "-o="+program,
		"codex-proxy/cmd/codex-proxy")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(b.t, err, string(out))
	require.NoError(b.t, b.CopyIn(program, "/usr/bin/codex-proxy.faulty"))
	b.MustRun(b.t, "mv", "/usr/bin/codex-proxy.faulty", "/usr/bin/codex-proxy")
}

// dropIn overrides a unit's settings.
func (b *bed) dropIn(unit, name, text string) {
	b.t.Helper()
	require.NoError(b.t, b.WriteFile("/etc/systemd/system/"+unit+".d/"+name+".conf", []byte(text), 0o644))
	b.MustRun(b.t, "systemctl", "daemon-reload")
}

// invocation is the journal of one run of a unit's processes.
func (b *bed) invocation(id string) string {
	b.t.Helper()
	out, err := b.Journal(b.t.Context(), "--output=cat", "_SYSTEMD_INVOCATION_ID="+id)
	require.NoError(b.t, err)
	return out
}

func (b *bed) untilShow(unit, property, value string) {
	b.t.Helper()
	b.untilShown(unit, func(v map[string]string) bool { return v[property] == value }, property)
}

// untilShown reads properties of a unit from systemd until ok.
func (b *bed) untilShown(unit string, ok func(map[string]string) bool, properties ...string) {
	b.t.Helper()
	for deadline := time.Now().Add(bound); ; pause(b.t.Context(), 20*time.Millisecond) {
		values := b.show(unit, properties...)
		if ok(values) {
			return
		}
		require.True(b.t, time.Now().Before(deadline), "%s stays at %v", unit, values)
	}
}

func (b *bed) usec(s string) time.Duration {
	b.t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	require.NoError(b.t, err)
	return time.Duration(n) * time.Microsecond
}
