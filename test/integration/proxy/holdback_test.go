package proxy

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/probes"
	"codex-proxy/test/bed"
)

// patientRamp makes the second restart wait for longer than any test and than
// TimeoutStartSec=, as an operator may configure it.
const patientRamp = "[Service]\nRestartSteps=1\nRestartMaxDelaySec=10min\nTimeoutStartSec=10s\n"

// On systemd 252 the start of a worker waits in place of systemd. Every report of the
// worker has the wait, and a command that ends it ends it at once.
func TestHeldBackOnDebian12(t *testing.T) {
	t.Parallel()
	b := bed.New(t, "bookworm", bed.RealWorker, "")
	b.Start()
	const ramp = "/etc/systemd/system/codex-worker@.service.d/ramp.conf"
	require.NoError(t, b.WriteFile(ramp, []byte(patientRamp), 0o644))
	b.MustRun(t, "systemctl", "daemon-reload")
	require.NoError(t, b.WriteFile(bed.WorkerFile, []byte("modle = \"x\"\n"), 0o644))
	b.MustRun(t, "systemctl", "kill", "--signal=KILL", bed.WorkerUnit)
	r := heldBack(b)
	b.MustRun(t, "systemctl", "daemon-reload") // it is no start
	assertHeldBack(b, r)
	b.Until("over TimeoutStartSec=", func(_ int, r bed.Report) bool {
		last := r.Workers[0].Transitions
		return time.Since(last[len(last)-1].At) > 12*time.Second
	})
	for _, c := range []struct{ end, restarts string }{{"reset-failed", "2"}, {"start", "3"}} {
		before := b.Properties(bed.WorkerUnit, "InvocationID")
		b.MustRun(t, "codex-proxy", "drain", "default")
		b.MustRun(t, "codex-proxy", "undrain", "default")
		assert.Equal(t, before, b.Properties(bed.WorkerUnit, "InvocationID"), "it waits on")
		_, _, _ = b.Run(t.Context(), "systemctl", c.end, bed.WorkerUnit) // a start fails: the file is still bad
		b.Until("tried", func(int, bed.Report) bool {
			return b.Properties(bed.WorkerUnit, "InvocationID")["InvocationID"] != before["InvocationID"]
		})
		heldBack(b)
		assert.Equal(t, c.restarts, b.Properties(bed.WorkerUnit, "NRestarts")["NRestarts"], c.end)
	}

	stopped := time.Now()
	b.MustRun(t, "systemctl", "stop", bed.WorkerUnit)
	assert.Less(t, time.Since(stopped), bed.Bound/6)
	assert.Equal(t, map[string]string{"ActiveState": "inactive", "Result": "success"},
		b.Properties(bed.WorkerUnit, "ActiveState", "Result"))
	b.Until("stopped", func(_ int, r bed.Report) bool { return r.Workers[0].Reason == probes.Stopped })
	assert.NotContains(t, b.UnitJournal(bed.WorkerUnit), "timed out")

	b.MustRun(t, "rm", ramp)
	b.MustRun(t, "systemctl", "daemon-reload")
	require.NoError(t, b.WriteFile(bed.WorkerFile, []byte(bed.RealWorker), 0o644))
	b.MustRun(t, "systemctl", "start", bed.WorkerUnit)
	b.Until("ready", bed.Ready)
}

// heldBack waits until the wait of ten minutes is reported.
func heldBack(b *bed.Bed) bed.Report {
	b.T.Helper()
	r, _ := b.Until("held back", func(_ int, r bed.Report) bool {
		w := r.Workers[0]
		return w.SubState == "start-pre" && w.NextRestartAt != nil && time.Until(*w.NextRestartAt) > 5*time.Minute &&
			strings.HasPrefix(b.Properties(bed.WorkerUnit, "StatusText")["StatusText"], "Backing off until ")
	})
	return r
}

func assertHeldBack(b *bed.Bed, r bed.Report) {
	t := b.T
	w := r.Workers[0]
	assert.Equal(t, probes.BackingOff, w.Reason)
	assert.Contains(t, r.Health.Readiness.Details, `worker default: backing_off: Not started: `)
	assert.Contains(t, r.Health.Readiness.Details, `unknown key "modle"`)
	text, _, _ := strings.Cut(strings.TrimPrefix(b.Properties(bed.WorkerUnit, "StatusText")["StatusText"],
		"Backing off until "), ",")
	until, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	assert.WithinDuration(t, *w.NextRestartAt, until, time.Second)
	_, metrics := b.Get("/metrics")
	assert.Contains(t, string(metrics), `codex_worker_state{state="backing_off",worker="default"} 1`)
	assert.Regexp(t, `codex_worker_backoff_ms\{worker="default"\} [1-9]`, string(metrics))
	status, _, _ := b.Run(t.Context(), "codex-proxy", "status")
	assert.Regexp(t, `activating \(start-pre\) +no +backing_off +\d+ +in \dm`, status)
	doctor, _, _ := b.Run(t.Context(), "codex-proxy", "doctor")
	assert.Contains(t, doctor, "keeps failing, and waits for its next start")
	out, err := b.Journal(t.Context(), "--unit="+bed.WorkerUnit, "CODEX_EVENT=restart-waits", "--output=cat")
	require.NoError(t, err)
	assert.Contains(t, out, "n_restarts=2")
}

// The proxy starts again at once, as connections wait in its socket, unless it crashes
// repeatedly.
func TestProxyRampOnDebian12(t *testing.T) {
	t.Parallel()
	b := bed.New(t, "bookworm", bed.RealWorker, "start_timeout = \"1s\"\n")
	startShort(b)
	var back bed.Sample
	for n := range 11 {
		killed := time.Now()
		b.MustRun(t, "systemctl", "kill", "--signal=KILL", bed.ProxyUnit)
		b.UntilShow(bed.ProxyUnit, "NRestarts", fmt.Sprint(n+1))
		b.UntilShow(bed.ProxyUnit, "ActiveState", "active")
		back = append(back, time.Since(killed))
	}
	t.Log("active again after", []time.Duration(back))
	assert.Greater(t, back[9], time.Second)
	assert.Greater(t, back[10], 5*time.Second)
	for restart, wait := range waits(b, bed.ProxyUnit) {
		assert.True(t, restart > 7 || wait < 20*time.Millisecond, "restart %d waits for %s, not at once", restart, wait)
	}
}

// waits are the times that the starts of a unit waited in place of systemd, by the
// number of the restart.
func waits(b *bed.Bed, unit string) map[int]time.Duration {
	b.T.Helper()
	out, err := b.Journal(b.T.Context(), "--unit="+unit, "CODEX_EVENT=restart-waits", "--output=cat")
	require.NoError(b.T, err)
	waits := map[int]time.Duration{}
	for _, match := range regexp.MustCompile(`n_restarts=(\d+) wait=(\S+)`).FindAllStringSubmatch(out, -1) {
		restart, err := strconv.Atoi(match[1])
		require.NoError(b.T, err)
		waits[restart], err = time.ParseDuration(match[2])
		require.NoError(b.T, err)
	}
	require.NotEmpty(b.T, waits, out)
	return waits
}
