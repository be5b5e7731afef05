package proxy

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/probes"
	"codex-proxy/test/await"
	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
)

// `systemctl restart` of a worker: its turn in flight is finished first, and
// new ones go to the other worker.
func TestRestartDrainsTheWorker(t *testing.T) { bed.BothSuites(t, testRestartDrainsTheWorker) }

func testRestartDrainsTheWorker(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	bed.SecondWorker(b)
	b.Start()
	b.Until("both ready", func(_ int, r bed.Report) bool {
		return bed.ReasonOf(r, "default") == probes.Ready && bed.ReasonOf(r, "b") == probes.Ready
	})
	h := bed.HoldSDK(b)
	_, r := b.Readyz()
	busy, other := "default", "b"
	if r.Workers[0].Name != busy {
		r.Workers[0], r.Workers[1] = r.Workers[1], r.Workers[0]
	}
	if r.Workers[0].Inflight == 0 {
		busy, other = other, busy
	}
	unit := "codex-worker@" + busy + ".service"
	before := b.Properties(unit, "InvocationID", "MainPID")
	restarted := b.Begin("systemctl", "restart", unit)
	r, _ = b.Until("draining", func(_ int, r bed.Report) bool { return bed.ReasonOf(r, busy) == probes.Draining })
	assert.True(t, r.OK, "the other worker is ready")
	assert.Equal(t, "stop", b.Properties(unit, "SubState")["SubState"], "ExecStop= runs, and no signal was sent")

	require.NoError(t, b.Models.Script("text from the other"))
	status, _, body := b.Chat(false, "hi")
	assert.Equal(t, http.StatusOK, status, body)
	assert.Contains(t, body, "from the other")
	assert.Equal(t, before["MainPID"], b.Properties(unit, "MainPID")["MainPID"], "the worker was ended with a turn in flight")
	assert.Equal(t, probes.Ready, bed.ReasonOf(r, other))

	b.Models.Release("finish")
	h.Whole(t)
	require.NoError(t, <-restarted)
	b.Until("both ready again", func(_ int, r bed.Report) bool {
		return bed.ReasonOf(r, busy) == probes.Ready && bed.ReasonOf(r, other) == probes.Ready
	})
	assert.NotEqual(t, before["InvocationID"], b.Properties(unit, "InvocationID")["InvocationID"])
	assert.Contains(t, b.UnitJournal(bed.ProxyUnit), `worker drained for its stop worker=`+busy)
}

// Without another worker new requests are refused at once, and a turn may take longer
// than TimeoutStopSec=.
func TestRestartOfTheOnlyWorker(t *testing.T) {
	bed.BothSuites(t, func(t *testing.T, suite string) {
		b := bed.New(t, suite, bed.RealWorker, "")
		dropIn := "[Service]\nTimeoutStopSec=6s\n" // the drain has to begin, and codex to end, in this time
		require.NoError(t, b.WriteFile("/etc/systemd/system/"+bed.WorkerUnit+".d/short.conf", []byte(dropIn), 0o644))
		b.MustRun(t, "systemctl", "daemon-reload")
		b.Start()
		h := bed.HoldSDK(b, "delay 7s")
		restarted := b.Begin("systemctl", "restart", bed.WorkerUnit)
		b.Until("draining", func(_ int, r bed.Report) bool { return r.Health.Readiness.Reason == probes.Draining })
		status, header, body := b.Chat(false, "hi")
		assert.Equal(t, http.StatusServiceUnavailable, status)
		assert.Contains(t, body, `"code":"draining"`)
		assert.NotEmpty(t, header.Get("Retry-After"))

		b.Models.Release("finish")
		h.Whole(t)
		require.NoError(t, <-restarted)
		b.Until("ready", bed.Ready)
		assert.NotContains(t, b.UnitJournal(bed.WorkerUnit), "timed out")
	})
}

// `systemctl stop codex.target` finishes the turns in flight: the stopping proxy still
// answers the workers' ExecStop=.
func TestStopFinishesTurns(t *testing.T) { bed.BothSuites(t, testStopFinishesTurns) }

func testStopFinishesTurns(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	h := bed.HoldSDK(b)
	b.MustRun(t, "systemctl", "stop", "codex.target") // does not wait for its parts
	b.Until("refusing", func(status int, _ bed.Report) bool { return !bed.Ready(status, bed.Report{}) })
	b.UntilShow(bed.WorkerUnit, "SubState", "stop")
	b.Models.Release("finish")
	h.Whole(t)
	for _, unit := range []string{bed.ProxyUnit, bed.WorkerUnit} {
		b.AwaitInactive(unit)
		assert.Equal(t, "success", b.Properties(unit, "Result")["Result"])
	}
	assert.NotContains(t, b.UnitJournal("codex*"), "codex-proxy drain:")
}

// The socket restarts with the target, which would reset waiting connections.
func TestRestartOfTheTargetRefuses(t *testing.T) { bed.BothSuites(t, testRestartOfTheTargetRefuses) }

func testRestartOfTheTargetRefuses(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	h, before := bed.Hold(b, "finish"), b.ProxyPID()
	restarted := b.Begin("systemctl", "restart", "codex.target")
	awaitStatus(b, "Stopping")
	b.HTTP.CloseIdleConnections()
	assertDraining(b)
	h.Finish(b)
	require.NoError(t, <-restarted)
	assert.NotEqual(t, before, b.ProxyPID())
}

// The commands drain, undrain and status of an operator.
func TestDrainCommands(t *testing.T) { bed.BothSuites(t, testDrainCommands) }

func testDrainCommands(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	h := bed.HoldSDK(b)
	_, stderr, err := b.Run(t.Context(), "codex-proxy", "drain", "default", "--wait=300ms")
	require.Error(t, err)
	assert.Equal(t, "codex-proxy drain: 1 turn still in flight after 300ms; they go on, and the drain holds\n", stderr)

	t.Run("seen everywhere", func(t *testing.T) {
		for _, path := range []string{"/readyz", "/healthz"} {
			status, body := b.Get(path)
			assert.Equal(t, http.StatusServiceUnavailable, status)
			assert.Contains(t, string(body), `"reason":"draining"`)
			assert.Contains(t, string(body), `"drained":true`)
		}
		status, _ := b.Get("/livez")
		assert.Equal(t, http.StatusOK, status)
		_, metrics := b.Get("/metrics")
		assert.Contains(t, string(metrics), `codex_worker_drained{worker="default"} 1`)
		const says = "worker default: draining, turns in flight: 1; codex-proxy undrain default"
		b.UntilShow(bed.ProxyUnit, "StatusText", "Not ready: "+says)
		table := b.MustRun(t, "codex-proxy", "status")
		assert.Contains(t, table, "not ready (draining) since ")
		assert.Regexp(t, `codex-worker@default\.service +active \(running\) +no +draining, drained +0 +- +1 +-`, table)
		assert.Contains(t, table, says)
		b.AwaitJournal(bed.ProxyUnit, `worker drained worker=default unit=codex-worker@default.service inflight=1`, bed.Bound)
		b.AwaitJournal(bed.ProxyUnit, "readiness=false reason=draining", bed.Bound)
	})

	waiting := b.Begin("codex-proxy", "drain", "default", "--wait")
	b.Models.Release("finish")
	h.Whole(t)
	require.NoError(t, <-waiting)

	b.MustRun(t, "systemctl", "restart", bed.WorkerUnit)
	r, _ := b.Until("connected again", func(_ int, r bed.Report) bool { return r.Workers[0].Handshake != nil })
	assert.Equal(t, probes.Draining, r.Workers[0].Reason, "an operator's drain outlives a restart")
	before := b.Properties(bed.ProxyUnit, "MainPID")["MainPID"]
	b.MustRun(t, "systemctl", "reload", bed.ProxyUnit)
	require.NotEqual(t, before, b.Properties(bed.ProxyUnit, "MainPID")["MainPID"])
	b.HTTP.CloseIdleConnections() // what is kept gets one more answer of the process before
	_, r = b.Readyz()
	assert.Equal(t, probes.Draining, r.Workers[0].Reason, "and a reload of the proxy")
	assert.Equal(t, "worker default is not drained; it is ready\n", b.MustRun(t, "codex-proxy", "undrain", "default"))
	_, ok := b.Readyz()
	assert.True(t, ok.OK)

	t.Run("all of them", func(t *testing.T) {
		assert.Equal(t, "worker default takes no new turns; 0 turns in flight\n", b.MustRun(t, "codex-proxy", "drain"))
		assert.Contains(t, b.MustRun(t, "codex-proxy", "status", "--json"), `"ok":false`)
		b.MustRun(t, "codex-proxy", "undrain")
	})
	t.Run("unknown worker", func(t *testing.T) {
		_, stderr, err := b.Run(t.Context(), "codex-proxy", "drain", "nobody")
		require.Error(t, err)
		assert.Equal(t, "codex-proxy drain: no such worker: \"nobody\"; there are default\n", stderr)
	})
	t.Run("only root", func(t *testing.T) {
		for _, user := range []string{"nobody", "codex-worker"} {
			for _, command := range []string{"status", "drain", "undrain"} {
				_, stderr, err := b.Run(t.Context(), "runuser", "-u", user, "--", "codex-proxy", command)
				require.Error(t, err)
				assert.Contains(t, stderr, "only root may do this: try sudo")
			}
		}
	})
	t.Run("not over TCP", func(t *testing.T) {
		for _, path := range []string{"/v1/status", "/v1/drain", "/v1/status/watch"} {
			status, _ := b.Get(path)
			assert.Equal(t, http.StatusNotFound, status, path)
		}
	})
	t.Run("watch", func(t *testing.T) {
		watching := watch(b)
		assert.Contains(t, watching.Until(t, "codex-worker@default.service"), "ready (ready)")
		b.MustRun(t, "codex-proxy", "drain")
		watching.Until(t, "draining, drained")
		b.MustRun(t, "systemctl", "stop", bed.ProxyUnit)
		watching.Until(t, "codex-proxy has stopped, or was restarted")
		var failed *exec.ExitError
		require.ErrorAs(t, <-watching.Done, &failed)
	})
}

// Neither a command nor a worker's stop starts a stopped proxy.
func TestStoppedProxyStaysStopped(t *testing.T) { bed.BothSuites(t, testStoppedProxyStaysStopped) }

func testStoppedProxyStaysStopped(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	b.MustRun(t, "systemctl", "stop", bed.ProxyUnit)
	_, stderr, err := b.Run(t.Context(), "codex-proxy", "status")
	require.Error(t, err)
	assert.Contains(t, stderr, "codex-proxy is not running (systemctl start codex.target)")
	began := time.Now()
	b.MustRun(t, "systemctl", "restart", bed.WorkerUnit)
	b.MustRun(t, "systemctl", "stop", bed.WorkerUnit)
	t.Logf("restart and stop of a worker without a proxy: %s", time.Since(began))
	assert.Less(t, time.Since(began), bed.Bound, "a drain has five minutes")
	assert.Equal(t, "inactive", b.Properties(bed.ProxyUnit, "ActiveState")["ActiveState"])
	assert.False(t, strings.Contains(b.UnitJournal(bed.WorkerUnit), "codex-proxy drain:"), "nothing went wrong")
}

// watch is `codex-proxy status --watch` with its output in a pipe.
func watch(b *bed.Bed) *bed.Running {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), bed.Bound)
	b.T.Cleanup(cancel)
	reader, writer := io.Pipe()
	r := &bed.Running{Bed: b, Lines: bufio.NewScanner(reader), Done: make(chan error, 1)}
	go func() {
		r.Done <- b.Exec(ctx, machine.Exec{Args: []string{"codex-proxy", "status", "--watch"},
			Stdout: writer, Stderr: writer})
		_ = writer.Close()
	}()
	return r
}

// At a daemon-reload, which every installation of a package causes, systemd drops the
// extension of a stop's timeout.
func TestRestartAcrossADaemonReload(t *testing.T) {
	bed.BothSuites(t, testRestartAcrossADaemonReload)
}

func testRestartAcrossADaemonReload(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	h := bed.Hold(b, "finish")
	restarted := b.Begin("systemctl", "restart", bed.ProxyUnit)
	b.UntilShow(bed.ProxyUnit, "SubState", "stop-sigterm")
	bed.Pause(t.Context(), 17*time.Second) // longer than was once enough for it to be killed
	b.MustRun(t, "systemctl", "daemon-reload")
	b.UntilShow(bed.ProxyUnit, "SubState", "stop-sigterm")
	h.Finish(b)
	require.NoError(t, <-restarted)
}

// systemd does not wait for a proxy that hangs while it finishes its turns.
func TestRestartOfAHungProxy(t *testing.T) {
	bed.BothSuites(t, testRestartOfAHungProxy)
}

func testRestartOfAHungProxy(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.DropIn(bed.ProxyUnit, "test", shortWatchdog)
	b.Start()
	bed.Hold(b, "finish")
	restarted := b.Begin("systemctl", "restart", bed.ProxyUnit)
	b.Until("draining", func(_ int, r bed.Report) bool { return r.Health.Readiness.Reason == probes.Draining })
	b.UntilShow(bed.ProxyUnit, "StatusText", "Stopping: 1 turns in flight")
	began := time.Now()
	b.Signal(b.OnlyProcess(bed.ProxyUnit), unix.SIGSTOP)
	require.NoError(t, <-restarted)
	t.Logf("restarted after %s, with a short watchdog", time.Since(began))
	assert.Less(t, time.Since(began), bed.Bound, "TimeoutStopSec= is longer")
	b.Until("ready", bed.Ready)
	b.Models.Release("finish")
}

// A proxy that hangs prevents no stop and start of a worker.
func TestRestartBesideAHungProxy(t *testing.T) {
	bed.BothSuites(t, testRestartBesideAHungProxy)
}

func testRestartBesideAHungProxy(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.DropIn(bed.ProxyUnit, "test", "[Service]\nWatchdogSec=10min\n") // it hangs for the whole restart
	b.Start()
	h := bed.HoldSDK(b)
	before := b.Properties(bed.WorkerUnit, "InvocationID")["InvocationID"]
	began := time.Now()
	restarted := b.Begin("systemctl", "restart", bed.WorkerUnit)
	b.Until("draining", func(_ int, r bed.Report) bool { return r.Health.Readiness.Reason == probes.Draining })
	proxy := b.OnlyProcess(bed.ProxyUnit)
	b.Signal(proxy, unix.SIGSTOP)
	b.UntilShow(bed.WorkerUnit, "SubState", "stop-sigterm")
	drained := time.Since(began)
	b.Models.Release("finish")
	require.NoError(t, <-restarted)
	t.Logf("given up on the proxy after %s, restarted after %s", drained, time.Since(began))
	assert.Less(t, drained, bed.Bound, "a drain has five minutes")
	assert.NotEqual(t, before, b.Properties(bed.WorkerUnit, "InvocationID")["InvocationID"])
	assert.Contains(t, b.UnitJournal(bed.WorkerUnit), "codex-proxy drain: codex-proxy does not answer")
	b.Signal(proxy, unix.SIGCONT)
	for h.Stream.Next() {
	}
	if err := h.Stream.Err(); err != nil { // codex may or may not wait for its turn's end
		assert.Contains(t, err.Error(), `"code":"worker_exited"`, "cut off with an error")
	}
	b.Until("ready", bed.Ready)
	assert.Equal(t, proxy, b.OnlyProcess(bed.ProxyUnit))
}

// A codex that hangs is killed also while its unit is being stopped, when systemd's
// watchdog is off, and its clients get an error.
func TestRestartOfAHungWorker(t *testing.T) {
	bed.BothSuites(t, testRestartOfAHungWorker)
}

func testRestartOfAHungWorker(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.DropIn(bed.WorkerUnit, "watchdog", shortWatchdog)
	b.Start()
	h := bed.HoldSDK(b)
	hung := b.Codex()
	b.Signal(hung, unix.SIGSTOP)
	began := time.Now()
	restarted := b.Begin("systemctl", "restart", bed.WorkerUnit)
	for h.Stream.Next() {
	}
	require.ErrorContains(t, h.Stream.Err(), `"code":"worker_exited"`)
	require.NoError(t, <-restarted)
	t.Logf("restarted after %s, with a short watchdog", time.Since(began))
	// Not by the unit: journald finds it by /proc, where a process that has just ended is no more.
	assert.NotEmpty(t, b.Entries(t, "CODEX_EVENT=command-hangs"))
	assert.Empty(t, b.Entries(t, "CODEX_EVENT=command-stays"))
	b.Until("ready", bed.Ready)
	assert.NotEqual(t, hung.Host, b.Codex().Host)
}

// ExecStop= also runs when codex has died; then it waits for no turn.
func TestCrashIsNotDrained(t *testing.T) { bed.BothSuites(t, testCrashIsNotDrained) }

func testCrashIsNotDrained(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	h := bed.HoldSDK(b)
	b.KillCodex()
	r, _ := b.Until("ready", bed.Ready)
	for h.Stream.Next() { // to its end, which is an error
	}
	require.Error(t, h.Stream.Err())
	for _, tr := range r.Workers[0].Transitions {
		assert.NotEqual(t, probes.Draining, tr.Reason)
	}
	assert.NotContains(t, b.UnitJournal(bed.ProxyUnit), "drained for its stop")
}

// An operator can cut the drain of a stop short.
func TestStopCanBeHastened(t *testing.T) { bed.BothSuites(t, testStopCanBeHastened) }

func testStopCanBeHastened(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	h := bed.HoldSDK(b)
	stopped := b.Begin("systemctl", "stop", bed.WorkerUnit)
	b.Until("draining", func(_ int, r bed.Report) bool { return r.Workers[0].SubState == "stop" })
	b.MustRun(t, "systemctl", "kill", "--kill-whom=control", bed.WorkerUnit)
	b.Until("past the drain", func(_ int, r bed.Report) bool { return r.Workers[0].SubState != "stop" })
	b.Models.Release("finish") // codex may or may not wait for it
	began := time.Now()
	require.NoError(t, <-stopped)
	t.Logf("stopped %s after the end of the drain", time.Since(began))
	for h.Stream.Next() {
	}
	if err := h.Stream.Err(); err != nil {
		assert.Contains(t, err.Error(), `"code":"worker_exited"`, "cut off with an error")
	}
}

// A stop may end in a failure, for example when SIGKILL cuts off its turns. The start of
// a restart still follows, and requests wait for it; a unit stopped like that has not
// hit the start limit.
func TestStopThatFails(t *testing.T) {
	bed.BothSuites(t, testStopThatFails)
}

func testStopThatFails(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, bed.Patient)
	b.Start()
	exited := func(_ int, r bed.Report) bool { // once the job of the stop has ended, too
		return r.Workers[0].ActiveState == "failed" && r.Workers[0].Reason == probes.WorkerExited
	}
	cutOff := func(verb string) {
		h := bed.Hold(b, verb)
		done := b.Begin("systemctl", verb, bed.WorkerUnit)
		b.Until("draining", func(_ int, r bed.Report) bool { return r.Workers[0].SubState == "stop" })
		waiting := make(chan error, 1)
		if verb == "restart" {
			go func() { waiting <- ask(bed.NewClient(b), true, false) }()
			b.Until("a request waits", func(_ int, r bed.Report) bool { return r.Queue.Depth == 1 })
		} else {
			close(waiting)
		}
		b.MustRun(t, "systemctl", "kill", "--signal=SIGKILL", bed.WorkerUnit)
		assert.NoError(t, <-waiting)
		assert.NoError(t, <-done)
		assert.Contains(t, h.Rest(t), `"code":"worker_exited"`)
		b.Models.Release(verb)
	}
	cutOff("restart")
	b.Until("ready", bed.Ready)
	b.Signal(b.Codex(), unix.SIGKILL)
	b.Until("restarted", func(status int, r bed.Report) bool {
		return status == http.StatusOK &&
			r.Workers[0].RestartsTotal == 1
	})
	cutOff("stop")
	b.Until("failed", exited)
	assert.Equal(t, "1", b.Properties(bed.WorkerUnit, "NRestarts")["NRestarts"])

	// Nor is a stop that ends a start.
	b.MustRun(t, "systemctl", "start", bed.WorkerUnit)
	b.Until("ready", bed.Ready)
	b.DropIn(bed.WorkerUnit, "slow", "[Service]\nExecStartPre=/bin/sleep infinity\n")
	b.Signal(b.Codex(), unix.SIGKILL)
	b.Until("starting", func(_ int, r bed.Report) bool { return r.Workers[0].SubState == "start-pre" })
	// When a program of ExecStartPre= ends well before the signal of a stop, systemd runs
	// the next one, and waits for its end: only the last one may be met.
	await.True(t, func() bool {
		processes, err := b.Processes(bed.WorkerUnit)
		return err == nil && len(processes) == 1 && processes[0].Command == "/bin/sleep infinity"
	}, bed.Bound)
	b.MustRun(t, "systemctl", "stop", bed.WorkerUnit)
	r, _ := b.Until("failed", exited)
	assert.Equal(t, "1", b.Properties(bed.WorkerUnit, "NRestarts")["NRestarts"])
	assert.EqualValues(t, 2, r.Workers[0].ConsecutiveFailures, "it was killed twice")
	assert.NotContains(t, b.OwnLines(), "worker is given up")
}
