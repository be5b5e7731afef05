package proxy

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
	"codex-proxy/test/await"
	"codex-proxy/test/bed"
)

// After kill -9 of codex the worker is not ready within milliseconds of the end of the
// connection; systemd alone restarts it, and it is soon ready again.
func TestKill(t *testing.T) { bed.BothSuites(t, testKill) }

func testKill(t *testing.T, suite string) {
	// Half a second of health is enough to reset the restart delay.
	b := bed.New(t, suite, bed.RealWorker, "reset_after = \"500ms\"\n")
	b.Start()
	proxy := b.OnlyProcess(bed.ProxyUnit)
	const kills = 10
	var unready, again bed.Sample
	for range kills {
		before := awaitReset(b)
		lost, back := killOnce(b)
		unready, again = append(unready, lost), append(again, back)
		assert.NotEqual(t, before["InvocationID"], b.Properties(bed.WorkerUnit, "InvocationID")["InvocationID"])
	}
	assert.Equal(t, kills, strings.Count(b.UnitJournal(bed.WorkerUnit), "Scheduled restart job, restart counter is at 1."),
		"systemd did not restart it, or its counter was not reset")
	t.Logf("end of connection to not ready: %s", unready)
	t.Logf("kill to ready again: %s", again)
	assert.Less(t, unready.Best(), bed.Slowest*10*time.Millisecond)
	assert.Less(t, again.Best(), bed.Slowest*400*time.Millisecond)

	assert.Equal(t, proxy, b.OnlyProcess(bed.ProxyUnit), "the proxy must neither die nor spawn")
	r, _ := b.Until("restarts counted", func(status int, r bed.Report) bool {
		return bed.Ready(status, r) && r.Workers[0].RestartsTotal >= kills
	})
	assert.Equal(t, uint64(kills), r.Workers[0].RestartsTotal)
	assertParents(b)
	assertChain(b, r.Workers[0])
}

// awaitReset waits until the proxy has reset systemd's counter after a time of health,
// through D-Bus and the polkit rule.
func awaitReset(b *bed.Bed) map[string]string {
	b.T.Helper()
	b.Until("ready", bed.Ready)
	for deadline, pace := time.Now().Add(bed.Bound), (await.Pace{}); ; pace.Pause(b.T.Context()) {
		values := b.Properties(bed.WorkerUnit, "NRestarts", "InvocationID")
		if values["NRestarts"] == "0" {
			return values
		}
		require.True(b.T, time.Now().Before(deadline), "NRestarts is never reset: %v", values)
	}
}

// killOnce kills codex and returns the time from the end of a connection to the
// worker to the first 503, and that from the kill to the next 200.
func killOnce(b *bed.Bed) (unready, again time.Duration) {
	b.T.Helper()
	ended, then := awaitEnd(b), time.Now()
	killed := b.Signal(b.Codex(), unix.SIGKILL)
	_, seen := b.Until("not ready", bed.UnreadySince(then))
	_, back := b.Until("ready", bed.Ready)
	return max(0, seen.Sub(<-ended)), back.Sub(killed)
}

// awaitEnd connects to the worker's socket as the proxy does and delivers the
// time at which that connection ends.
func awaitEnd(b *bed.Bed) <-chan time.Time {
	b.T.Helper()
	conn, err := b.DialUnix(b.T.Context(), "/run/codex-proxy/default.sock")
	require.NoError(b.T, err)
	// The relay has accepted a request that it has answered.
	_, err = conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"))
	require.NoError(b.T, err)
	_, err = conn.Read(make([]byte, 4096))
	require.NoError(b.T, err)
	ended := make(chan time.Time, 1)
	go func(conn net.Conn) {
		_, _ = io.Copy(io.Discard, conn)
		ended <- time.Now()
		_ = conn.Close()
	}(conn)
	return ended
}

// assertParents asserts that codex is a child of the worker's shim, and that a child of
// PID 1.
func assertParents(b *bed.Bed) {
	b.T.Helper()
	codex := b.Codex()
	shim := b.MustRun(b.T, "ps", "-o", "ppid=", "-p", strconv.Itoa(codex.Inside))
	assert.Equal(b.T, b.Properties(bed.WorkerUnit, "MainPID")["MainPID"], bed.Trim(shim))
	assert.Equal(b.T, "1", bed.Trim(b.MustRun(b.T, "ps", "-o", "ppid=", "-p", bed.Trim(shim))))
}

// assertChain asserts that the JSON and the journal have the steps of the last restart.
func assertChain(b *bed.Bed, w probes.Worker) {
	b.T.Helper()
	var reasons []probes.Reason
	for _, tr := range w.Transitions {
		reasons = append(reasons, tr.Reason)
	}
	require.NotEmpty(b.T, reasons)
	assert.Equal(b.T, probes.Ready, reasons[len(reasons)-1])
	for _, want := range []probes.Reason{probes.BackingOff, probes.Starting, probes.HandshakePending} {
		assert.Contains(b.T, reasons, want)
	}
	assert.True(b.T, slices.Contains(reasons, probes.HandshakeLost) || slices.Contains(reasons, probes.WorkerExited),
		"%v", reasons)
	require.NotNil(b.T, w.LastExit)
	assert.Equal(b.T, []string{"signal", "killed", "SIGKILL"},
		[]string{w.LastExit.Result, w.LastExit.Code, w.LastExit.Status})

	journal := b.UnitJournal(bed.ProxyUnit)
	assert.Contains(b.T, journal, `readiness changed readiness=false reason=`)
	assert.Contains(b.T, journal, `worker is down worker=default unit=codex-worker@default.service reason=backing_off last_exit="killed by SIGKILL (signal)"`)
	assert.Regexp(b.T, `worker ready worker=default unit=codex-worker@default.service chain=".*backing_off [\d.]+m?s, starting [\d.]+m?s, handshake_pending [\d.]+m?s"`, journal)
	assert.Contains(b.T, journal, `readiness changed readiness=true reason=ready elapsed_ms=`)
}

// A stopped codex answers nothing: the watchdog kills it and systemd starts it
// again, with the shipped WatchdogSec.
func TestHang(t *testing.T) { bed.BothSuites(t, testHang) }

func testHang(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	watchdog, err := time.ParseDuration(b.Properties(bed.WorkerUnit, "WatchdogUSec")["WatchdogUSec"])
	require.NoError(t, err)
	hung := b.Codex()
	stopped := b.Signal(hung, unix.SIGSTOP)
	_, unready := b.Until("not ready", bed.UnreadySince(stopped))
	r, back := b.Until("ready", bed.Ready)
	t.Logf("SIGSTOP to not ready %s, to ready again %s, with WatchdogSec=%s", unready.Sub(stopped), back.Sub(stopped),
		watchdog)
	assert.Less(t, unready.Sub(stopped), watchdog+bed.Slowest*time.Second) // the start time of codex is not asserted
	assert.NotEqual(t, hung.Host, b.Codex().Host)
	assert.ErrorIs(t, unix.Kill(hung.Host, 0), unix.ESRCH, "the hung codex is still there")
	require.NotNil(t, r.Workers[0].LastExit)
	assert.Equal(t, "watchdog", r.Workers[0].LastExit.Result)
	assert.Contains(t, b.UnitJournal(bed.WorkerUnit), "Watchdog timeout")
}

// After the start limit an operator's commands bring the worker back, in either order,
// without a command for the proxy.
func TestStartLimit(t *testing.T) {
	bed.BothSuites(t, startLimit)
}

func startLimit(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	dropIn := "[Unit]\nStartLimitBurst=3\n[Service]\nRestartSec=10ms\nRestartSteps=0\n"
	require.NoError(t, b.WriteFile("/etc/systemd/system/"+bed.WorkerUnit+".d/fast.conf", []byte(dropIn), 0o644))
	b.MustRun(t, "systemctl", "daemon-reload")
	b.Start()
	good, err := b.ReadFile(bed.WorkerFile)
	require.NoError(t, err)
	require.NoError(t, b.WriteFile(bed.WorkerFile, []byte("mode = \"nonsense\"\n"), 0o644))
	b.Signal(b.Codex(), unix.SIGKILL)
	r, _ := b.Until("at the start limit", func(_ int, r bed.Report) bool {
		return r.Health.Readiness.Reason == probes.StartLimitHit
	})
	assert.Contains(t, r.Health.Readiness.Details, "systemctl reset-failed")
	status, _ := b.Get("/livez")
	assert.Equal(t, http.StatusServiceUnavailable, status, "nothing will get better by itself")
	code, header, body := b.Chat(false, "anyone?")
	assert.Equal(t, http.StatusServiceUnavailable, code)
	assert.Contains(t, body, `"code":"worker_not_ready"`)
	assert.Equal(t, "60", header.Get("Retry-After"))

	// The limit also stops the socket, which the same command must start again.
	assert.Equal(t, "failed", b.Properties("codex-worker@default.socket", "ActiveState")["ActiveState"])

	require.NoError(t, b.WriteFile(bed.WorkerFile, good, 0o644))
	b.MustRun(t, "sh", "-c", "systemctl reset-failed 'codex-worker@*' && systemctl start codex.target")
	b.Until("ready", bed.Ready)

	// In the other order, the start is refused, the reset only resets, and the report
	// follows each step.
	require.NoError(t, b.WriteFile(bed.WorkerFile, []byte("mode = \"nonsense\"\n"), 0o644))
	b.Signal(b.Codex(), unix.SIGKILL)
	b.Until("at the start limit again", func(_ int, r bed.Report) bool {
		return r.Health.Readiness.Reason == probes.StartLimitHit
	})
	require.NoError(t, b.WriteFile(bed.WorkerFile, good, 0o644))
	_, _, err = b.Run(t.Context(), "systemctl", "start", bed.WorkerUnit)
	require.Error(t, err, "systemd keeps to its limit")
	b.Until("still at the limit", func(_ int, r bed.Report) bool {
		return r.Health.Readiness.Reason == probes.StartLimitHit
	})
	b.MustRun(t, "systemctl", "reset-failed", "codex-worker@*")
	r, _ = b.Until("stopped", func(_ int, r bed.Report) bool { return r.Health.Readiness.Reason == probes.Stopped })
	assert.True(t, r.Health.Liveness.Live)
	assert.Contains(t, r.Health.Readiness.Details, "systemctl start "+bed.WorkerUnit)
	b.MustRun(t, "systemctl", "start", bed.WorkerUnit)
	b.Until("ready", bed.Ready)
	assert.Equal(t, "0", b.Properties(bed.ProxyUnit, "NRestarts")["NRestarts"])
}

// A proxy that crashes at every start does not use up its start limit at once: a
// temporary fault needs no human action, and requests that came meanwhile are answered.
func TestProxyCrashLoop(t *testing.T) {
	t.Parallel()
	b := bed.New(t, bed.Newest, bed.RealWorker, "reset_after = \"1s\"\n")
	b.Start()
	worker := b.Codex()
	before := b.ProxyPID()
	b.Signal(b.OnlyProcess(bed.ProxyUnit), unix.SIGKILL)
	b.UntilShown(bed.ProxyUnit, func(v map[string]string) bool { // after a second of health
		return v["MainPID"] != before && v["MainPID"] != "0" && v["NRestarts"] == "0"
	}, "MainPID", "NRestarts")
	assert.Contains(t, b.UnitJournal(bed.ProxyUnit), "restart counter is at 1.")

	b.MustRun(t, "sh", "-ec", `cd /usr/bin; cp codex-proxy good; printf '#!/bin/sh\nexit 1\n' >bad; chmod 755 bad; mv bad codex-proxy`)
	b.HTTP.CloseIdleConnections()
	b.Signal(b.OnlyProcess(bed.ProxyUnit), unix.SIGKILL)
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), bed.Bound)
	defer cancel()
	untilRestarts(b, 5)
	waiting := make(chan bed.Outcome, 1)
	go func() { waiting <- b.Ask(ctx, false, "[[text answer]]") }()
	untilRestarts(b, 11)
	t.Logf("ten restarts took %s", time.Since(began))
	assert.Greater(t, time.Since(began), 5*time.Second)
	b.MustRun(t, "mv", "/usr/bin/good", "/usr/bin/codex-proxy")
	assertComplete(t, <-waiting, false, "answer", "1")
	b.UntilShow(bed.ProxyUnit, "ActiveState", "active")
	assert.Equal(t, worker, b.Codex(), "the worker must not notice")
}

// untilRestarts waits until systemd has restarted the proxy at least so often.
func untilRestarts(b *bed.Bed, least int) {
	b.T.Helper()
	b.UntilShown(bed.ProxyUnit, func(v map[string]string) bool {
		n, err := strconv.Atoi(v["NRestarts"])
		return err == nil && n >= least
	}, "NRestarts")
}
