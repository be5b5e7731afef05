package integration

import (
	"bytes"
	"context"
	"net/http"
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

const (
	rampSteps = 15 // starts that the limit admits: the first one and 14 restarts
	// A restart takes a tenth of a second beyond its delay, and systemd's timers are
	// accurate to 250 ms. A busy machine makes some of them later.
	rampMost    = 5 * time.Second // half of them
	rampLongest = 20 * time.Second
)

// crashing is a unit whose program notes the time of each of its starts and exits.
const crashing = `[Service]
ExecStart=
ExecStart=/bin/sh -c 'cat /proc/uptime >>` + startsFile + `; exit 1'
`

const startsFile = "/var/lib/codex-worker/default/starts"

// ramp are the delays of RestartSec=100ms RestartSteps=6 RestartMaxDelaySec=10s,
// systemd.service(5): a geometric series, and then its last value.
func ramp() []time.Duration {
	delays := []time.Duration{100, 215, 464, 1000, 2154, 4641}
	for len(delays) < rampSteps-1 {
		delays = append(delays, 10_000)
	}
	for i := range delays {
		delays[i] *= time.Millisecond
	}
	return delays
}

// A worker that exits at once, until systemd gives it up: the delays follow the ramp of
// the unit to its end on every systemd, and the proxy uses little CPU and logs few
// lines. Then one command brings everything back.
func TestCrashLoop(t *testing.T) {
	t.Parallel()
	for suite, restarts := range map[string]int{
		"trixie":   rampSteps - 1,
		"bookworm": rampSteps, // at a daemon-reload systemd drops the first start
	} {
		t.Run(suite, func(t *testing.T) {
			t.Parallel()
			newBed(t, suite, realWorker, "").crashLoop(restarts)
		})
	}
}

// crashLoop ends when systemd has restarted the worker so often.
func (b *bed) crashLoop(restarts int) {
	t := b.t
	b.start()
	proxy := b.onlyProcess(proxyUnit)
	dropIn := "/etc/systemd/system/" + workerUnit + ".d/crash.conf"
	require.NoError(t, b.WriteFile(dropIn, []byte(crashing), 0o644))
	require.NoError(t, b.WriteFile(workerFile, []byte("mode = \"demo\"\n"), 0o644)) // its preparation takes no time
	b.MustRun(t, "systemctl", "daemon-reload")
	cpu, began := b.cpu(proxyUnit), time.Now()
	lines := strings.Count(b.ownLines(), "\n")
	codex := b.codex()
	b.MustRun(t, "sh", "-c", "cat /proc/uptime >"+startsFile+"; chown --reference="+nativeHome+"/ "+startsFile)
	b.signal(codex, unix.SIGKILL)
	b.awaitJournal(workerUnit, "Start request repeated too quickly", 3*time.Minute)
	b.awaitJournal(proxyUnit, "worker is given up", bound) // systemd says so after its own line
	window := time.Since(began)
	used := b.cpu(proxyUnit) - cpu
	told := b.ownLines()

	t.Logf("%s of crash loop: %s of CPU (%.3f %%), %d lines", window.Round(time.Millisecond), used,
		100*used.Seconds()/window.Seconds(), strings.Count(told, "\n")-lines)
	assert.Greater(t, window, sum(ramp()))
	assert.Less(t, used.Seconds(), 0.03*window.Seconds(), "CPU")
	assert.Less(t, strings.Count(told, "\n")-lines, 30, told)
	for priority, once := range map[string]string{"warning": "worker keeps failing", "err": "worker is given up"} {
		of := b.ownLines("--priority=" + priority + ".." + priority)
		assert.Equal(t, 1, strings.Count(of, once), of)
		assert.Contains(t, of, `remedy="see journalctl -u `+workerUnit)
	}
	b.assertRamp()

	r, _ := b.until("at the start limit", func(_ int,
		r report) bool {
		return r.Health.Readiness.Reason == probes.StartLimitHit
	})
	assert.Equal(t, uint64(restarts), r.Workers[0].RestartsTotal, "the refused one is none")
	_, metrics := b.get("/metrics")
	assert.Contains(t, string(metrics), `codex_worker_start_limit_hit{worker="default"} 1`)
	status, _ := b.get("/livez")
	assert.Equal(t, http.StatusServiceUnavailable, status)

	b.MustRun(t, "rm", dropIn)
	require.NoError(t, b.WriteFile(workerFile, []byte(realWorker), 0o644))
	b.MustRun(t, "systemctl", "daemon-reload")
	b.MustRun(t, "systemctl", "reset-failed", workerUnit, "codex-worker@default.socket")
	b.MustRun(t, "systemctl", "start", workerUnit) // the unit alone, not the target
	b.until("ready", ready)
	b.untilMetric(`codex_worker_start_limit_hit{worker="default"} 0`)
	assert.Equal(t, proxy, b.onlyProcess(proxyUnit), "the proxy was not touched")
}

// Explicit starts count for systemd's start limit, too, without a restart. The remedy
// in /readyz brings everything back.
func TestStartLimitWithoutARestart(t *testing.T) {
	bothSuites(t, testStartLimitWithoutARestart)
}

func testStartLimitWithoutARestart(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.start()
	err := error(nil)
	for range rampSteps {
		if _, _, err = b.Run(t.Context(), "systemctl", "restart", workerUnit); err != nil {
			break
		}
	}
	require.Error(t, err, "the start limit")
	r, _ := b.until("at the start limit", func(_ int,
		r report) bool {
		return r.Health.Readiness.Reason == probes.StartLimitHit
	})
	assert.Equal(t, "0", b.show(workerUnit, "NRestarts")["NRestarts"])
	b.awaitJournal(proxyUnit, "worker is given up", bound)
	status, header, body := b.chat(false, "hello")
	assert.Equal(t, http.StatusServiceUnavailable, status, body)
	assert.Equal(t, "60", header.Get("Retry-After"))

	began := time.Now()
	b.MustRun(t, "systemctl", "restart", proxyUnit)
	assert.Less(t, time.Since(began), 10*time.Second, "there is nothing to wait for")

	_, remedy, _ := strings.Cut(r.Health.Readiness.Details, ", then ")
	b.MustRun(t, "sh", "-c", remedy)
	b.until("ready", ready)
}

// assertRamp compares the time between the starts of the program with the ramp. The
// program notes its starts itself: a line of the journal has the time at which journald
// received it, which may be late. Each program starts after the delay that follows the
// end of the one before.
func (b *bed) assertRamp() {
	b.t.Helper()
	starts := b.starts()
	require.GreaterOrEqual(b.t, len(starts), rampSteps)
	var late sample
	for i, want := range ramp() {
		gap := starts[i+1] - starts[i]
		assert.Greater(b.t, gap, want-20*time.Millisecond, "restart %d; /proc/uptime has hundredths of a second", i+1)
		late = append(late, gap-want)
	}
	b.t.Logf("starts %v, late by %s", starts, late)
	b.assertLate(late)
}

// assertLate asserts that restarts follow the ramp.
func (b *bed) assertLate(late sample) {
	b.t.Helper()
	assert.Less(b.t, late.quantile(0.5), rampMost, "%v", []time.Duration(late))
	assert.Less(b.t, late.quantile(1), rampLongest, "%v", []time.Duration(late))
}

func sum(delays []time.Duration) (total time.Duration) {
	for _, d := range delays {
		total += d
	}
	return total
}

// starts are the times in startsFile since the boot: that of the kill, and those of the
// starts of the program.
func (b *bed) starts() (starts []time.Duration) {
	b.t.Helper()
	return b.startsIn(startsFile)
}

func (b *bed) startsIn(file string) (starts []time.Duration) {
	b.t.Helper()
	data, err := b.ReadFile(file)
	require.NoError(b.t, err)
	for line := range strings.Lines(string(data)) {
		uptime, _, _ := strings.Cut(line, " ")
		at, err := time.ParseDuration(uptime + "s")
		require.NoError(b.t, err)
		starts = append(starts, at)
	}
	return starts
}

// ownLines are the lines that the proxy itself wrote.
func (b *bed) ownLines(options ...string) string {
	b.t.Helper()
	out, err := b.Journal(b.t.Context(), append([]string{"--unit=" + proxyUnit, "--output=cat",
		"SYSLOG_IDENTIFIER=codex-proxy"}, options...)...)
	require.NoError(b.t, err)
	return out
}

// cpu is the CPU time that a unit has used, from its cgroup.
func (b *bed) cpu(unit string) time.Duration {
	b.t.Helper()
	n, err := strconv.ParseInt(b.show(unit, "CPUUsageNSec")["CPUUsageNSec"], 10, 64)
	require.NoError(b.t, err)
	return time.Duration(n)
}

// awaitJournal returns when a unit's journal has a line with text. It follows the
// journal: repeated questions to the proxy would use the CPU time that a test measures.
func (b *bed) awaitJournal(unit, text string, limit time.Duration) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), limit)
	defer cancel()
	seen := &grep{text: []byte(text), found: cancel}
	err := b.Exec(ctx, machine.Exec{Args: []string{"journalctl", "--boot", "--follow", "--no-tail", "--output=cat",
		"--unit=" + unit}, Stdout: seen})
	require.True(b.t, seen.ok, "%q never stood in the journal of %s: %v\n%s", text, unit, err, seen.buf.String())
}

// grep calls found when text was written to it.
type grep struct {
	text  []byte
	found func()
	buf   bytes.Buffer
	ok    bool
}

func (g *grep) Write(p []byte) (int, error) {
	g.buf.Write(p)
	if !g.ok && bytes.Contains(g.buf.Bytes(), g.text) {
		g.ok = true
		g.found()
	}
	return len(p), nil
}
