package integration

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/probes"
	"codex-proxy/test/machine"
)

// second adds the worker b, as an operator does.
func (b *bed) second() {
	b.t.Helper()
	require.NoError(b.t, b.WriteFile("/etc/codex-proxy/workers/b.toml", []byte(realWorker), 0o644))
	b.MustRun(b.t, "systemctl", "enable", "--quiet", "codex-worker@b.service")
}

// gated is a streamed answer whose end the model holds back behind the gate "finish".
type gated struct {
	stream *ssestream.Stream[openai.ChatCompletionChunk]
	answer openai.ChatCompletionAccumulator
}

// holdSDK begins a stream, with more steps after the gate, and returns when its
// first text is there.
func (b *bed) holdSDK(after ...string) *gated {
	b.t.Helper()
	require.NoError(b.t, b.models.Script(append([]string{"text one ", "gate finish"}, append(after, "text two")...)...))
	client := b.client()
	h := &gated{stream: client.Chat.Completions.NewStreaming(b.t.Context(), question("count"))}
	for h.stream.Next() {
		require.True(b.t, h.answer.AddChunk(h.stream.Current()))
		if h.answer.Choices[0].Message.Content == "one " {
			return h
		}
	}
	require.NoError(b.t, h.stream.Err())
	require.Fail(b.t, "the stream ended early")
	return nil
}

// whole reads the rest of the stream, which must be complete.
func (h *gated) whole(t *testing.T) {
	t.Helper()
	for h.stream.Next() {
		require.True(t, h.answer.AddChunk(h.stream.Current()))
	}
	require.NoError(t, h.stream.Err())
	assert.Equal(t, "one two", h.answer.Choices[0].Message.Content)
	assert.Equal(t, "stop", h.answer.Choices[0].FinishReason)
}

// begin runs a command and delivers its result.
func (b *bed) begin(args ...string) <-chan error {
	ended := make(chan error, 1)
	ctx, cancel := context.WithTimeout(b.t.Context(), bound)
	go func() {
		defer cancel()
		stdout, stderr, err := b.Run(ctx, args...)
		if err != nil {
			err = errors.Join(err, errors.New(stdout+stderr))
		}
		ended <- err
	}()
	return ended
}

func reasonOf(r report, worker string) probes.Reason {
	for _, w := range r.Workers {
		if w.Name == worker {
			return w.Reason
		}
	}
	return ""
}

// `systemctl restart` of a worker: its turn in flight is finished first, and
// new ones go to the other worker.
func TestRestartDrainsTheWorker(t *testing.T) { bothSuites(t, testRestartDrainsTheWorker) }

func testRestartDrainsTheWorker(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.second()
	b.start()
	b.until("both ready", func(_ int, r report) bool {
		return reasonOf(r, "default") == probes.Ready && reasonOf(r, "b") == probes.Ready
	})
	h := b.holdSDK()
	_, r := b.readyz()
	busy, other := "default", "b"
	if r.Workers[0].Name != busy {
		r.Workers[0], r.Workers[1] = r.Workers[1], r.Workers[0]
	}
	if r.Workers[0].Inflight == 0 {
		busy, other = other, busy
	}
	unit := "codex-worker@" + busy + ".service"
	before := b.show(unit, "InvocationID", "MainPID")
	restarted := b.begin("systemctl", "restart", unit)
	r, _ = b.until("draining", func(_ int, r report) bool { return reasonOf(r, busy) == probes.Draining })
	assert.True(t, r.OK, "the other worker is ready")
	assert.Equal(t, "stop", b.show(unit, "SubState")["SubState"], "ExecStop= runs, and no signal was sent")

	require.NoError(t, b.models.Script("text from the other"))
	status, _, body := b.chat(false, "hi")
	assert.Equal(t, http.StatusOK, status, body)
	assert.Contains(t, body, "from the other")
	assert.Equal(t, before["MainPID"], b.show(unit, "MainPID")["MainPID"], "the worker was ended with a turn in flight")
	assert.Equal(t, probes.Ready, reasonOf(r, other))

	b.models.Release("finish")
	h.whole(t)
	require.NoError(t, <-restarted)
	b.until("both ready again", func(_ int, r report) bool {
		return reasonOf(r, busy) == probes.Ready && reasonOf(r, other) == probes.Ready
	})
	assert.NotEqual(t, before["InvocationID"], b.show(unit, "InvocationID")["InvocationID"])
	assert.Contains(t, b.journal(proxyUnit), `worker drained for its stop worker=`+busy)
}

// Without another worker new requests are refused at once, and a turn may take longer
// than TimeoutStopSec=.
func TestRestartOfTheOnlyWorker(t *testing.T) {
	bothSuites(t, func(t *testing.T, suite string) {
		b := newBed(t, suite, realWorker, "")
		dropIn := "[Service]\nTimeoutStopSec=6s\n" // the drain has to begin, and codex to end, in this time
		require.NoError(t, b.WriteFile("/etc/systemd/system/"+workerUnit+".d/short.conf", []byte(dropIn), 0o644))
		b.MustRun(t, "systemctl", "daemon-reload")
		b.start()
		h := b.holdSDK("delay 7s")
		restarted := b.begin("systemctl", "restart", workerUnit)
		b.until("draining", func(_ int, r report) bool { return r.Health.Readiness.Reason == probes.Draining })
		status, header, body := b.chat(false, "hi")
		assert.Equal(t, http.StatusServiceUnavailable, status)
		assert.Contains(t, body, `"code":"draining"`)
		assert.NotEmpty(t, header.Get("Retry-After"))

		b.models.Release("finish")
		h.whole(t)
		require.NoError(t, <-restarted)
		b.until("ready", ready)
		assert.NotContains(t, b.journal(workerUnit), "timed out")
	})
}

// `systemctl stop codex.target` finishes the turns in flight: the stopping proxy still
// answers the workers' ExecStop=.
func TestStopFinishesTurns(t *testing.T) { bothSuites(t, testStopFinishesTurns) }

func testStopFinishesTurns(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.start()
	h := b.holdSDK()
	b.MustRun(t, "systemctl", "stop", "codex.target") // does not wait for its parts
	b.until("refusing", func(status int, _ report) bool { return !ready(status, report{}) })
	b.untilShow(workerUnit, "SubState", "stop")
	b.models.Release("finish")
	h.whole(t)
	for _, unit := range []string{proxyUnit, workerUnit} {
		b.awaitInactive(unit)
		assert.Equal(t, "success", b.show(unit, "Result")["Result"])
	}
	assert.NotContains(t, b.journal("codex*"), "codex-proxy drain:")
}

// The socket restarts with the target, which would reset waiting connections.
func TestRestartOfTheTargetRefuses(t *testing.T) { bothSuites(t, testRestartOfTheTargetRefuses) }

func testRestartOfTheTargetRefuses(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.start()
	h, before := b.hold("finish"), b.mainPID()
	restarted := b.begin("systemctl", "restart", "codex.target")
	b.awaitStatus("Stopping")
	b.http.CloseIdleConnections()
	b.assertDraining()
	h.finish(b)
	require.NoError(t, <-restarted)
	assert.NotEqual(t, before, b.mainPID())
}

// The commands drain, undrain and status of an operator.
func TestDrainCommands(t *testing.T) { bothSuites(t, testDrainCommands) }

func testDrainCommands(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.start()
	h := b.holdSDK()
	_, stderr, err := b.Run(t.Context(), "codex-proxy", "drain", "default", "--wait=300ms")
	require.Error(t, err)
	assert.Equal(t, "codex-proxy drain: 1 turn still in flight after 300ms; they go on, and the drain holds\n", stderr)

	t.Run("seen everywhere", func(t *testing.T) {
		for _, path := range []string{"/readyz", "/healthz"} {
			status, body := b.get(path)
			assert.Equal(t, http.StatusServiceUnavailable, status)
			assert.Contains(t, string(body), `"reason":"draining"`)
			assert.Contains(t, string(body), `"drained":true`)
		}
		status, _ := b.get("/livez")
		assert.Equal(t, http.StatusOK, status)
		_, metrics := b.get("/metrics")
		assert.Contains(t, string(metrics), `codex_worker_drained{worker="default"} 1`)
		const says = "worker default: draining, turns in flight: 1; codex-proxy undrain default"
		b.untilShow(proxyUnit, "StatusText", "Not ready: "+says)
		table := b.MustRun(t, "codex-proxy", "status")
		assert.Contains(t, table, "not ready (draining) since ")
		assert.Regexp(t, `codex-worker@default\.service +active \(running\) +no +draining, drained +0 +- +1 +-`, table)
		assert.Contains(t, table, says)
		b.awaitJournal(proxyUnit, `worker drained worker=default unit=codex-worker@default.service inflight=1`, bound)
		b.awaitJournal(proxyUnit, "readiness=false reason=draining", bound)
	})

	waiting := b.begin("codex-proxy", "drain", "default", "--wait")
	b.models.Release("finish")
	h.whole(t)
	require.NoError(t, <-waiting)

	b.MustRun(t, "systemctl", "restart", workerUnit)
	r, _ := b.until("connected again", func(_ int, r report) bool { return r.Workers[0].Handshake != nil })
	assert.Equal(t, probes.Draining, r.Workers[0].Reason, "an operator's drain outlives a restart")
	before := b.show(proxyUnit, "MainPID")["MainPID"]
	b.MustRun(t, "systemctl", "reload", proxyUnit)
	require.NotEqual(t, before, b.show(proxyUnit, "MainPID")["MainPID"])
	b.http.CloseIdleConnections() // what is kept gets one more answer of the process before
	_, r = b.readyz()
	assert.Equal(t, probes.Draining, r.Workers[0].Reason, "and a reload of the proxy")
	assert.Equal(t, "worker default is not drained; it is ready\n", b.MustRun(t, "codex-proxy", "undrain", "default"))
	_, ok := b.readyz()
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
			status, _ := b.get(path)
			assert.Equal(t, http.StatusNotFound, status, path)
		}
	})
	t.Run("watch", func(t *testing.T) {
		watching := b.watch()
		assert.Contains(t, watching.until(t, "codex-worker@default.service"), "ready (ready)")
		b.MustRun(t, "codex-proxy", "drain")
		watching.until(t, "draining, drained")
		b.MustRun(t, "systemctl", "stop", proxyUnit)
		watching.until(t, "codex-proxy has stopped, or was restarted")
		var failed *exec.ExitError
		require.ErrorAs(t, <-watching.done, &failed)
	})
}

// Neither a command nor a worker's stop starts a stopped proxy.
func TestStoppedProxyStaysStopped(t *testing.T) { bothSuitesInTurn(t, testStoppedProxyStaysStopped) }

func testStoppedProxyStaysStopped(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.start()
	b.MustRun(t, "systemctl", "stop", proxyUnit)
	_, stderr, err := b.Run(t.Context(), "codex-proxy", "status")
	require.Error(t, err)
	assert.Contains(t, stderr, "codex-proxy is not running (systemctl start codex.target)")
	began := time.Now()
	b.MustRun(t, "systemctl", "restart", workerUnit)
	b.MustRun(t, "systemctl", "stop", workerUnit)
	t.Logf("restart and stop of a worker without a proxy: %s", time.Since(began))
	assert.Less(t, time.Since(began), bound, "a drain has five minutes")
	assert.Equal(t, "inactive", b.show(proxyUnit, "ActiveState")["ActiveState"])
	assert.False(t, strings.Contains(b.journal(workerUnit), "codex-proxy drain:"), "nothing went wrong")
}

// watch is `codex-proxy status --watch` with its output in a pipe.
func (b *bed) watch() *running {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), bound)
	b.t.Cleanup(cancel)
	reader, writer := io.Pipe()
	r := &running{bed: b, lines: bufio.NewScanner(reader), done: make(chan error, 1)}
	go func() {
		r.done <- b.Exec(ctx, machine.Exec{Args: []string{"codex-proxy", "status", "--watch"},
			Stdout: writer, Stderr: writer})
		_ = writer.Close()
	}()
	return r
}

// At a daemon-reload, which every installation of a package causes, systemd drops the
// extension of a stop's timeout.
func TestRestartAcrossADaemonReload(t *testing.T) {
	bothSuites(t, testRestartAcrossADaemonReload)
}

func testRestartAcrossADaemonReload(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.start()
	h := b.hold("finish")
	restarted := b.begin("systemctl", "restart", proxyUnit)
	b.untilShow(proxyUnit, "SubState", "stop-sigterm")
	pause(t.Context(), 17*time.Second) // longer than was once enough for it to be killed
	b.MustRun(t, "systemctl", "daemon-reload")
	b.untilShow(proxyUnit, "SubState", "stop-sigterm")
	h.finish(b)
	require.NoError(t, <-restarted)
}

// systemd does not wait for a proxy that hangs while it finishes its turns.
func TestRestartOfAHungProxy(t *testing.T) {
	bothSuites(t, testRestartOfAHungProxy)
}

func testRestartOfAHungProxy(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.dropIn(proxyUnit, "test", shortWatchdog)
	b.start()
	b.hold("finish")
	restarted := b.begin("systemctl", "restart", proxyUnit)
	b.until("draining", func(_ int, r report) bool { return r.Health.Readiness.Reason == probes.Draining })
	b.untilShow(proxyUnit, "StatusText", "Stopping: 1 turns in flight")
	began := time.Now()
	b.signal(b.onlyProcess(proxyUnit), unix.SIGSTOP)
	require.NoError(t, <-restarted)
	t.Logf("restarted after %s, with a short watchdog", time.Since(began))
	assert.Less(t, time.Since(began), bound, "TimeoutStopSec= is longer")
	b.until("ready", ready)
	b.models.Release("finish")
}

// A proxy that hangs prevents no stop and start of a worker.
func TestRestartBesideAHungProxy(t *testing.T) {
	bothSuites(t, testRestartBesideAHungProxy)
}

func testRestartBesideAHungProxy(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.dropIn(proxyUnit, "test", "[Service]\nWatchdogSec=10min\n") // it hangs for the whole restart
	b.start()
	h := b.holdSDK()
	before := b.show(workerUnit, "InvocationID")["InvocationID"]
	began := time.Now()
	restarted := b.begin("systemctl", "restart", workerUnit)
	b.until("draining", func(_ int, r report) bool { return r.Health.Readiness.Reason == probes.Draining })
	proxy := b.onlyProcess(proxyUnit)
	b.signal(proxy, unix.SIGSTOP)
	b.untilShow(workerUnit, "SubState", "stop-sigterm")
	drained := time.Since(began)
	b.models.Release("finish")
	require.NoError(t, <-restarted)
	t.Logf("given up on the proxy after %s, restarted after %s", drained, time.Since(began))
	assert.Less(t, drained, bound, "a drain has five minutes")
	assert.NotEqual(t, before, b.show(workerUnit, "InvocationID")["InvocationID"])
	assert.Contains(t, b.journal(workerUnit), "codex-proxy drain: codex-proxy does not answer")
	b.signal(proxy, unix.SIGCONT)
	for h.stream.Next() {
	}
	if err := h.stream.Err(); err != nil { // codex may or may not wait for its turn's end
		assert.Contains(t, err.Error(), `"code":"worker_exited"`, "cut off with an error")
	}
	b.until("ready", ready)
	assert.Equal(t, proxy, b.onlyProcess(proxyUnit))
}

// A codex that hangs is killed also while its unit is being stopped, when systemd's
// watchdog is off, and its clients get an error.
func TestRestartOfAHungWorker(t *testing.T) {
	bothSuites(t, testRestartOfAHungWorker)
}

func testRestartOfAHungWorker(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.dropIn(workerUnit, "watchdog", shortWatchdog)
	b.start()
	h := b.holdSDK()
	hung := b.codex()
	b.signal(hung, unix.SIGSTOP)
	began := time.Now()
	restarted := b.begin("systemctl", "restart", workerUnit)
	for h.stream.Next() {
	}
	require.ErrorContains(t, h.stream.Err(), `"code":"worker_exited"`)
	require.NoError(t, <-restarted)
	t.Logf("restarted after %s, with a short watchdog", time.Since(began))
	// Not by the unit: journald finds it by /proc, where a process that has just ended is no more.
	assert.NotEmpty(t, b.entries(t, "CODEX_EVENT=command-hangs"))
	assert.Empty(t, b.entries(t, "CODEX_EVENT=command-stays"))
	b.until("ready", ready)
	assert.NotEqual(t, hung.Host, b.codex().Host)
}

// ExecStop= also runs when codex has died; then it waits for no turn.
func TestCrashIsNotDrained(t *testing.T) { bothSuites(t, testCrashIsNotDrained) }

func testCrashIsNotDrained(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.start()
	h := b.holdSDK()
	b.killCodex()
	r, _ := b.until("ready", ready)
	for h.stream.Next() { // to its end, which is an error
	}
	require.Error(t, h.stream.Err())
	for _, tr := range r.Workers[0].Transitions {
		assert.NotEqual(t, probes.Draining, tr.Reason)
	}
	assert.NotContains(t, b.journal(proxyUnit), "drained for its stop")
}

// An operator can cut the drain of a stop short.
func TestStopCanBeHastened(t *testing.T) { bothSuites(t, testStopCanBeHastened) }

func testStopCanBeHastened(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.start()
	h := b.holdSDK()
	stopped := b.begin("systemctl", "stop", workerUnit)
	b.until("draining", func(_ int, r report) bool { return r.Workers[0].SubState == "stop" })
	b.MustRun(t, "systemctl", "kill", "--kill-whom=control", workerUnit)
	b.until("past the drain", func(_ int, r report) bool { return r.Workers[0].SubState != "stop" })
	b.models.Release("finish") // codex may or may not wait for it
	began := time.Now()
	require.NoError(t, <-stopped)
	t.Logf("stopped %s after the end of the drain", time.Since(began))
	for h.stream.Next() {
	}
	if err := h.stream.Err(); err != nil {
		assert.Contains(t, err.Error(), `"code":"worker_exited"`, "cut off with an error")
	}
}

// A stop may end in a failure, for example when SIGKILL cuts off its turns. The start of
// a restart still follows, and requests wait for it; a unit stopped like that has not
// hit the start limit.
func TestStopThatFails(t *testing.T) {
	bothSuites(t, testStopThatFails)
}

func testStopThatFails(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, patient)
	b.start()
	exited := func(_ int, r report) bool { // once the job of the stop has ended, too
		return r.Workers[0].ActiveState == "failed" && r.Workers[0].Reason == probes.WorkerExited
	}
	cutOff := func(verb string) {
		h := b.hold(verb)
		done := b.begin("systemctl", verb, workerUnit)
		b.until("draining", func(_ int, r report) bool { return r.Workers[0].SubState == "stop" })
		waiting := make(chan error, 1)
		if verb == "restart" {
			go func() { waiting <- ask(b.newClient(), true, false) }()
			b.until("a request waits", func(_ int, r report) bool { return r.Queue.Depth == 1 })
		} else {
			close(waiting)
		}
		b.MustRun(t, "systemctl", "kill", "--signal=SIGKILL", workerUnit)
		assert.NoError(t, <-waiting)
		assert.NoError(t, <-done)
		assert.Contains(t, h.rest(t), `"code":"worker_exited"`)
		b.models.Release(verb)
	}
	cutOff("restart")
	b.until("ready", ready)
	b.signal(b.codex(), unix.SIGKILL)
	b.until("restarted", func(status int, r report) bool {
		return status == http.StatusOK &&
			r.Workers[0].RestartsTotal == 1
	})
	cutOff("stop")
	b.until("failed", exited)
	assert.Equal(t, "1", b.show(workerUnit, "NRestarts")["NRestarts"])

	// Nor is a stop that ends a start.
	b.MustRun(t, "systemctl", "start", workerUnit)
	b.until("ready", ready)
	b.dropIn(workerUnit, "slow", "[Service]\nExecStartPre=/bin/sleep infinity\n")
	b.signal(b.codex(), unix.SIGKILL)
	b.until("starting", func(_ int, r report) bool { return r.Workers[0].SubState == "start-pre" })
	// When a program of ExecStartPre= ends well before the signal of a stop, systemd runs
	// the next one, and waits for its end: only the last one may be met.
	require.Eventually(t, func() bool {
		processes, err := b.Processes(workerUnit)
		return err == nil && len(processes) == 1 && processes[0].Command == "/bin/sleep infinity"
	}, bound, 10*time.Millisecond)
	b.MustRun(t, "systemctl", "stop", workerUnit)
	r, _ := b.until("failed", exited)
	assert.Equal(t, "1", b.show(workerUnit, "NRestarts")["NRestarts"])
	assert.EqualValues(t, 2, r.Workers[0].ConsecutiveFailures, "it was killed twice")
	assert.NotContains(t, b.ownLines(), "worker is given up")
}
