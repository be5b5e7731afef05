package integration

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
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

type report = probes.Report

// After kill -9 of codex the worker is not ready within milliseconds of the end of the
// connection; systemd alone restarts it, and it is soon ready again.
func TestKill(t *testing.T) { bothSuitesInTurn(t, testKill) }

func testKill(t *testing.T, suite string) {
	// Half a second of health is enough to reset the restart delay.
	b := newBed(t, suite, realWorker, "reset_after = \"500ms\"\n")
	b.start()
	proxy := b.onlyProcess(proxyUnit)
	const kills = 10
	var unready, again sample
	for range kills {
		before := b.awaitReset()
		lost, back := b.killOnce()
		unready, again = append(unready, lost), append(again, back)
		assert.NotEqual(t, before["InvocationID"], b.show(workerUnit, "InvocationID")["InvocationID"])
	}
	assert.Equal(t, kills, strings.Count(b.journal(workerUnit), "Scheduled restart job, restart counter is at 1."),
		"systemd did not restart it, or its counter was not reset")
	t.Logf("end of connection to not ready: %s", unready)
	t.Logf("kill to ready again: %s", again)
	assert.Less(t, unready.best(), slowest*10*time.Millisecond)
	assert.Less(t, again.best(), slowest*400*time.Millisecond)

	assert.Equal(t, proxy, b.onlyProcess(proxyUnit), "the proxy must neither die nor spawn")
	r, _ := b.until("restarts counted", func(status int, r report) bool {
		return ready(status, r) && r.Workers[0].RestartsTotal >= kills
	})
	assert.Equal(t, uint64(kills), r.Workers[0].RestartsTotal)
	b.assertParents()
	b.assertChain(r.Workers[0])
}

// awaitReset waits until the proxy has reset systemd's counter after a time of health,
// through D-Bus and the polkit rule.
func (b *bed) awaitReset() map[string]string {
	b.t.Helper()
	b.until("ready", ready)
	for deadline := time.Now().Add(bound); ; pause(b.t.Context(), 20*time.Millisecond) {
		values := b.show(workerUnit, "NRestarts", "InvocationID")
		if values["NRestarts"] == "0" {
			return values
		}
		require.True(b.t, time.Now().Before(deadline), "NRestarts is never reset: %v", values)
	}
}

// killOnce kills codex and returns the time from the end of a connection to the
// worker to the first 503, and that from the kill to the next 200.
func (b *bed) killOnce() (unready, again time.Duration) {
	b.t.Helper()
	ended, then := b.awaitEnd(), time.Now()
	killed := b.signal(b.codex(), unix.SIGKILL)
	_, seen := b.until("not ready", unreadySince(then))
	_, back := b.until("ready", ready)
	return max(0, seen.Sub(<-ended)), back.Sub(killed)
}

// awaitEnd connects to the worker's socket as the proxy does and delivers the
// time at which that connection ends.
func (b *bed) awaitEnd() <-chan time.Time {
	b.t.Helper()
	conn, err := b.DialUnix(b.t.Context(), "/run/codex-proxy/default.sock")
	require.NoError(b.t, err)
	// The relay has accepted a request that it has answered.
	_, err = conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"))
	require.NoError(b.t, err)
	_, err = conn.Read(make([]byte, 4096))
	require.NoError(b.t, err)
	ended := make(chan time.Time, 1)
	go func(conn net.Conn) {
		_, _ = io.Copy(io.Discard, conn)
		ended <- time.Now()
		_ = conn.Close()
	}(conn)
	return ended
}

func (b *bed) onlyProcess(unit string) machine.Process {
	b.t.Helper()
	processes, err := b.Processes(unit)
	require.NoError(b.t, err)
	require.Len(b.t, processes, 1, unit)
	return processes[0]
}

// assertParents asserts that codex is a child of the worker's shim, and that a child of
// PID 1.
func (b *bed) assertParents() {
	b.t.Helper()
	codex := b.codex()
	shim := b.MustRun(b.t, "ps", "-o", "ppid=", "-p", strconv.Itoa(codex.Inside))
	assert.Equal(b.t, b.show(workerUnit, "MainPID")["MainPID"], trim(shim))
	assert.Equal(b.t, "1", trim(b.MustRun(b.t, "ps", "-o", "ppid=", "-p", trim(shim))))
}

// assertChain asserts that the JSON and the journal have the steps of the last restart.
func (b *bed) assertChain(w probes.Worker) {
	b.t.Helper()
	var reasons []probes.Reason
	for _, tr := range w.Transitions {
		reasons = append(reasons, tr.Reason)
	}
	require.NotEmpty(b.t, reasons)
	assert.Equal(b.t, probes.Ready, reasons[len(reasons)-1])
	for _, want := range []probes.Reason{probes.BackingOff, probes.Starting, probes.HandshakePending} {
		assert.Contains(b.t, reasons, want)
	}
	assert.True(b.t, slices.Contains(reasons, probes.HandshakeLost) || slices.Contains(reasons, probes.WorkerExited),
		"%v", reasons)
	require.NotNil(b.t, w.LastExit)
	assert.Equal(b.t, []string{"signal", "killed", "SIGKILL"},
		[]string{w.LastExit.Result, w.LastExit.Code, w.LastExit.Status})

	journal := b.journal(proxyUnit)
	assert.Contains(b.t, journal, `readiness changed readiness=false reason=`)
	assert.Contains(b.t, journal, `worker is down worker=default unit=codex-worker@default.service reason=backing_off last_exit="killed by SIGKILL (signal)"`)
	assert.Regexp(b.t, `worker ready worker=default unit=codex-worker@default.service chain=".*backing_off [\d.]+m?s, starting [\d.]+m?s, handshake_pending [\d.]+m?s"`, journal)
	assert.Contains(b.t, journal, `readiness changed readiness=true reason=ready elapsed_ms=`)
}

// A stopped codex answers nothing: the watchdog kills it and systemd starts it
// again, with the shipped WatchdogSec.
func TestHang(t *testing.T) { bothSuitesInTurn(t, testHang) }

func testHang(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.start()
	watchdog, err := time.ParseDuration(b.show(workerUnit, "WatchdogUSec")["WatchdogUSec"])
	require.NoError(t, err)
	hung := b.codex()
	stopped := b.signal(hung, unix.SIGSTOP)
	_, unready := b.until("not ready", unreadySince(stopped))
	r, back := b.until("ready", ready)
	t.Logf("SIGSTOP to not ready %s, to ready again %s, with WatchdogSec=%s", unready.Sub(stopped), back.Sub(stopped),
		watchdog)
	assert.Less(t, unready.Sub(stopped), watchdog+slowest*time.Second) // the start time of codex is not asserted
	assert.NotEqual(t, hung.Host, b.codex().Host)
	assert.ErrorIs(t, unix.Kill(hung.Host, 0), unix.ESRCH, "the hung codex is still there")
	require.NotNil(t, r.Workers[0].LastExit)
	assert.Equal(t, "watchdog", r.Workers[0].LastExit.Result)
	assert.Contains(t, b.journal(workerUnit), "Watchdog timeout")
}

// After the start limit an operator's commands bring the worker back, in either order,
// without a command for the proxy.
func TestStartLimit(t *testing.T) {
	bothSuites(t, startLimit)
}

func startLimit(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	dropIn := "[Unit]\nStartLimitBurst=3\n[Service]\nRestartSec=10ms\nRestartSteps=0\n"
	require.NoError(t, b.WriteFile("/etc/systemd/system/"+workerUnit+".d/fast.conf", []byte(dropIn), 0o644))
	b.MustRun(t, "systemctl", "daemon-reload")
	b.start()
	good, err := b.ReadFile(workerFile)
	require.NoError(t, err)
	require.NoError(t, b.WriteFile(workerFile, []byte("mode = \"nonsense\"\n"), 0o644))
	b.signal(b.codex(), unix.SIGKILL)
	r, _ := b.until("at the start limit", func(_ int, r report) bool {
		return r.Health.Readiness.Reason == probes.StartLimitHit
	})
	assert.Contains(t, r.Health.Readiness.Details, "systemctl reset-failed")
	status, _ := b.get("/livez")
	assert.Equal(t, http.StatusServiceUnavailable, status, "nothing will get better by itself")
	code, header, body := b.chat(false, "anyone?")
	assert.Equal(t, http.StatusServiceUnavailable, code)
	assert.Contains(t, body, `"code":"worker_not_ready"`)
	assert.Equal(t, "60", header.Get("Retry-After"))

	// The limit also stops the socket, which the same command must start again.
	assert.Equal(t, "failed", b.show("codex-worker@default.socket", "ActiveState")["ActiveState"])

	require.NoError(t, b.WriteFile(workerFile, good, 0o644))
	b.MustRun(t, "sh", "-c", "systemctl reset-failed 'codex-worker@*' && systemctl start codex.target")
	b.until("ready", ready)

	// In the other order, the start is refused, the reset only resets, and the report
	// follows each step.
	require.NoError(t, b.WriteFile(workerFile, []byte("mode = \"nonsense\"\n"), 0o644))
	b.signal(b.codex(), unix.SIGKILL)
	b.until("at the start limit again", func(_ int, r report) bool {
		return r.Health.Readiness.Reason == probes.StartLimitHit
	})
	require.NoError(t, b.WriteFile(workerFile, good, 0o644))
	_, _, err = b.Run(t.Context(), "systemctl", "start", workerUnit)
	require.Error(t, err, "systemd keeps to its limit")
	b.until("still at the limit", func(_ int, r report) bool {
		return r.Health.Readiness.Reason == probes.StartLimitHit
	})
	b.MustRun(t, "systemctl", "reset-failed", "codex-worker@*")
	r, _ = b.until("stopped", func(_ int, r report) bool { return r.Health.Readiness.Reason == probes.Stopped })
	assert.True(t, r.Health.Liveness.Live)
	assert.Contains(t, r.Health.Readiness.Details, "systemctl start "+workerUnit)
	b.MustRun(t, "systemctl", "start", workerUnit)
	b.until("ready", ready)
	assert.Equal(t, "0", b.show(proxyUnit, "NRestarts")["NRestarts"])
}

// A proxy that crashes at every start does not use up its start limit at once: a
// temporary fault needs no human action, and requests that came meanwhile are answered.
func TestProxyCrashLoop(t *testing.T) {
	t.Parallel()
	b := newBed(t, newest, realWorker, "reset_after = \"1s\"\n")
	b.start()
	worker := b.codex()
	before := b.mainPID()
	b.signal(b.onlyProcess(proxyUnit), unix.SIGKILL)
	b.untilShown(proxyUnit, func(v map[string]string) bool { // after a second of health
		return v["MainPID"] != before && v["MainPID"] != "0" && v["NRestarts"] == "0"
	}, "MainPID", "NRestarts")
	assert.Contains(t, b.journal(proxyUnit), "restart counter is at 1.")

	b.MustRun(t, "sh", "-ec", `cd /usr/bin; cp codex-proxy good; printf '#!/bin/sh\nexit 1\n' >bad; chmod 755 bad; mv bad codex-proxy`)
	b.http.CloseIdleConnections()
	b.signal(b.onlyProcess(proxyUnit), unix.SIGKILL)
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	b.untilRestarts(5)
	waiting := make(chan outcome, 1)
	go func() { waiting <- b.ask(ctx, false, "[[text answer]]") }()
	b.untilRestarts(11)
	t.Logf("ten restarts took %s", time.Since(began))
	assert.Greater(t, time.Since(began), 5*time.Second)
	b.MustRun(t, "mv", "/usr/bin/good", "/usr/bin/codex-proxy")
	assertComplete(t, <-waiting, false, "answer", "1")
	b.untilShow(proxyUnit, "ActiveState", "active")
	assert.Equal(t, worker, b.codex(), "the worker must not notice")
}

// untilRestarts waits until systemd has restarted the proxy at least so often.
func (b *bed) untilRestarts(least int) {
	b.t.Helper()
	b.untilShown(proxyUnit, func(v map[string]string) bool {
		n, err := strconv.Atoi(v["NRestarts"])
		return err == nil && n >= least
	}, "NRestarts")
}
