package workers

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/probes"
	"codex-proxy/test/bed"
)

// crashing is a unit whose program notes the time of each of its starts and exits.
const crashing = `[Service]
ExecStart=
ExecStart=/bin/sh -c 'cat /proc/uptime >>` + startsFile + `; exit 1'
`

const startsFile = "/var/lib/codex-worker/default/starts"

// A worker that exits at once, until systemd gives it up: the delays follow the ramp of
// the unit to its end on every systemd, and the proxy uses little CPU and logs few
// lines. Then one command brings everything back.
func TestCrashLoop(t *testing.T) {
	t.Parallel()
	for suite, restarts := range map[string]int{
		"trixie":   bed.RampSteps - 1,
		"bookworm": bed.RampSteps, // at a daemon-reload systemd drops the first start
	} {
		t.Run(suite, func(t *testing.T) {
			t.Parallel()
			crashLoop(bed.New(t, suite, bed.RealWorker, ""), restarts)
		})
	}
}

// crashLoop ends when systemd has restarted the worker so often.
func crashLoop(b *bed.Bed, restarts int) {
	t := b.T
	b.Start()
	proxy := b.OnlyProcess(bed.ProxyUnit)
	dropIn := "/etc/systemd/system/" + bed.WorkerUnit + ".d/crash.conf"
	require.NoError(t, b.WriteFile(dropIn, []byte(crashing), 0o644))
	require.NoError(t, b.WriteFile(bed.WorkerFile, []byte("mode = \"demo\"\n"), 0o644)) // its preparation takes no time
	b.MustRun(t, "systemctl", "daemon-reload")
	cpu, began := bed.UnitCPU(b, bed.ProxyUnit), time.Now()
	lines := strings.Count(b.OwnLines(), "\n")
	codex := b.Codex()
	b.MustRun(t, "sh", "-c", "cat /proc/uptime >"+startsFile+"; chown --reference="+nativeHome+"/ "+startsFile)
	b.Signal(codex, unix.SIGKILL)
	b.AwaitJournal(bed.WorkerUnit, "Start request repeated too quickly", 3*time.Minute)
	b.AwaitJournal(bed.ProxyUnit, "worker is given up", bed.Bound) // systemd says so after its own line
	window := time.Since(began)
	used := bed.UnitCPU(b, bed.ProxyUnit) - cpu
	told := b.OwnLines()

	t.Logf("%s of crash loop: %s of CPU (%.3f %%), %d lines", window.Round(time.Millisecond), used,
		100*used.Seconds()/window.Seconds(), strings.Count(told, "\n")-lines)
	assert.Greater(t, window, sum(bed.Ramp()))
	assert.Less(t, used.Seconds(), 0.03*window.Seconds(), "CPU")
	assert.Less(t, strings.Count(told, "\n")-lines, 30, told)
	for priority, once := range map[string]string{"warning": "worker keeps failing", "err": "worker is given up"} {
		of := b.OwnLines("--priority=" + priority + ".." + priority)
		assert.Equal(t, 1, strings.Count(of, once), of)
		assert.Contains(t, of, `remedy="see journalctl -u `+bed.WorkerUnit)
	}
	assertRamp(b)

	r, _ := b.Until("at the start limit", func(_ int,
		r bed.Report) bool {
		return r.Health.Readiness.Reason == probes.StartLimitHit
	})
	assert.Equal(t, uint64(restarts), r.Workers[0].RestartsTotal, "the refused one is none")
	_, metrics := b.Get("/metrics")
	assert.Contains(t, string(metrics), `codex_worker_start_limit_hit{worker="default"} 1`)
	status, _ := b.Get("/livez")
	assert.Equal(t, http.StatusServiceUnavailable, status)

	b.MustRun(t, "rm", dropIn)
	require.NoError(t, b.WriteFile(bed.WorkerFile, []byte(bed.RealWorker), 0o644))
	b.MustRun(t, "systemctl", "daemon-reload")
	b.MustRun(t, "systemctl", "reset-failed", bed.WorkerUnit, "codex-worker@default.socket")
	b.MustRun(t, "systemctl", "start", bed.WorkerUnit) // the unit alone, not the target
	b.Until("ready", bed.Ready)
	b.UntilMetric(`codex_worker_start_limit_hit{worker="default"} 0`)
	assert.Equal(t, proxy, b.OnlyProcess(bed.ProxyUnit), "the proxy was not touched")
}

// Explicit starts count for systemd's start limit, too, without a restart. The remedy
// in /readyz brings everything back.
func TestStartLimitWithoutARestart(t *testing.T) {
	bed.BothSuites(t, testStartLimitWithoutARestart)
}

func testStartLimitWithoutARestart(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	err := error(nil)
	for range bed.RampSteps {
		if _, _, err = b.Run(t.Context(), "systemctl", "restart", bed.WorkerUnit); err != nil {
			break
		}
	}
	require.Error(t, err, "the start limit")
	r, _ := b.Until("at the start limit", func(_ int,
		r bed.Report) bool {
		return r.Health.Readiness.Reason == probes.StartLimitHit
	})
	assert.Equal(t, "0", b.Properties(bed.WorkerUnit, "NRestarts")["NRestarts"])
	b.AwaitJournal(bed.ProxyUnit, "worker is given up", bed.Bound)
	status, header, body := b.Chat(false, "hello")
	assert.Equal(t, http.StatusServiceUnavailable, status, body)
	assert.Equal(t, "60", header.Get("Retry-After"))

	began := time.Now()
	b.MustRun(t, "systemctl", "restart", bed.ProxyUnit)
	assert.Less(t, time.Since(began), 10*time.Second, "there is nothing to wait for")

	_, remedy, _ := strings.Cut(r.Health.Readiness.Details, ", then ")
	b.MustRun(t, "sh", "-c", remedy)
	b.Until("ready", bed.Ready)
}

// assertRamp compares the time between the starts of the program with the ramp. The
// program notes its starts itself: a line of the journal has the time at which journald
// received it, which may be late. Each program starts after the delay that follows the
// end of the one before.
func assertRamp(b *bed.Bed) {
	b.T.Helper()
	starts := starts(b)
	require.GreaterOrEqual(b.T, len(starts), bed.RampSteps)
	var late bed.Sample
	for i, want := range bed.Ramp() {
		gap := starts[i+1] - starts[i]
		assert.Greater(b.T, gap, want-20*time.Millisecond, "restart %d; /proc/uptime has hundredths of a second", i+1)
		late = append(late, gap-want)
	}
	b.T.Logf("starts %v, late by %s", starts, late)
	bed.AssertLate(b, late)
}

func sum(delays []time.Duration) (total time.Duration) {
	for _, d := range delays {
		total += d
	}
	return total
}

// starts are the times in startsFile since the boot: that of the kill, and those of the
// starts of the program.
func starts(b *bed.Bed) (starts []time.Duration) {
	b.T.Helper()
	return bed.StartsIn(b, startsFile)
}
