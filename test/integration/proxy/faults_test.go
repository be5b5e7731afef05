package proxy

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/probes"
	"codex-proxy/test/await"
	"codex-proxy/test/bed"
)

// A worker that cannot start reports the reason in one line, in the journal, in
// `systemctl status` and in /readyz; the proxy stays up.
func TestWorkerCannotStart(t *testing.T) { bed.BothSuites(t, testWorkerCannotStart) }

func testWorkerCannotStart(t *testing.T, suite string) {
	for _, tc := range []struct {
		name   string
		worker string
		dropIn string
		line   string // the reason for an operator
	}{
		{
			name:   "codex missing",
			worker: strings.Replace(bed.RealWorker, bed.CodexDir, "/opt/nothing", 1),
			line:   `/etc/codex-proxy/workers/default\.toml:2: .*/opt/nothing/bin/codex`,
		},
		{
			name:   "not logged in",
			worker: "mode = \"plain\"\ncodex_path = \"" + bed.CodexDir + "/bin/codex\"\n",
			line:   `not logged in.*codex.* login`,
		},
		{
			name:   "unknown key for codex",
			worker: bed.RealWorker + "[codex]\nmodel_reasoning_efort = \"high\"\n",
			line:   `/etc/codex-proxy/workers/default\.toml:8: .*model_reasoning_efort`,
		},
		{
			name:   "unknown key of ours",
			worker: "modle = \"x\"\n" + bed.RealWorker,
			line:   `/etc/codex-proxy/workers/default\.toml:1: unknown key "modle" \(did you mean "model"\?\)`,
		},
		{
			name:   "socket directory not writable",
			worker: bed.RealWorker,
			dropIn: "[Service]\nReadOnlyPaths=/run/codex-worker/default\n",
			line:   `/run/codex-worker/default`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := bed.New(t, suite, tc.worker, "")
			if tc.dropIn != "" {
				require.NoError(t, b.WriteFile("/etc/systemd/system/"+bed.WorkerUnit+".d/fault.conf",
					[]byte(tc.dropIn), 0o644))
				b.MustRun(t, "systemctl", "daemon-reload")
			}
			b.MustRun(t, "systemctl", "start", "codex.target") // the proxy still comes up
			line := regexp.MustCompile(tc.line)
			r, _ := b.Until("telling why", func(status int, r bed.Report) bool {
				return status == http.StatusServiceUnavailable && line.MatchString(r.Health.Readiness.Details)
			})
			assert.Contains(t, r.Health.Readiness.Details, "worker default: ")
			assert.Contains(t, []probes.Reason{probes.BackingOff, probes.WorkerExited, probes.Starting},
				r.Health.Readiness.Reason)
			assert.Equal(t, "active", b.Properties(bed.ProxyUnit, "ActiveState")["ActiveState"])
			await.True(t, func() bool { // between two attempts it reports "starting"
				return line.MatchString(b.Properties(bed.ProxyUnit, "StatusText")["StatusText"])
			}, bed.Bound)
			assertOneLinePerStart(t, b, line)

			status, _, body := b.Chat(false, "anyone?")
			assert.Equal(t, http.StatusServiceUnavailable, status)
			assert.Contains(t, body, `"code":"worker_not_ready"`)
		})
	}
}

// assertOneLinePerStart asserts that each attempt logs the reason once, and that we log
// nothing else.
func assertOneLinePerStart(t *testing.T, b *bed.Bed, line *regexp.Regexp) {
	t.Helper()
	b.MustRun(t, "systemctl", "stop", bed.WorkerUnit)
	starts := strings.Count(b.UnitJournal(bed.WorkerUnit), "Starting codex-worker@default.service")
	said := 0
	for l := range strings.Lines(b.UnitJournal(bed.WorkerUnit)) {
		if line.MatchString(l) {
			said++
		}
	}
	require.Positive(t, starts)
	assert.LessOrEqual(t, said, starts)
	assert.GreaterOrEqual(t, said, 1)
}

// Any local user may send signals on the system bus; only systemd's count.
func TestForgedSignals(t *testing.T) { bed.BothSuites(t, testForgedSignals) }

func testForgedSignals(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	const path = "/org/freedesktop/systemd1/unit/codex_2dworker_40default_2eservice"
	emit := []string{"setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "busctl", "emit"}
	forged := [][]string{
		{path, "org.freedesktop.DBus.Properties", "PropertiesChanged", "sa{sv}as", "org.freedesktop.systemd1.Unit", "2",
			"ActiveState", "s", "failed", "SubState", "s", "failed", "0"},
		{path, "org.freedesktop.DBus.Properties", "PropertiesChanged", "sa{sv}as", "org.freedesktop.systemd1.Service",
			"1", "NRestarts", "u", "77", "0"},
		{path, "org.freedesktop.DBus.Properties", "PropertiesChanged", "sa{sv}as", "", "0", "0"},
	}
	for _, unique := range connections(b) {
		for _, f := range forged {
			b.MustRun(t, append(append(emit, "--destination="+unique), f...)...) // unicast passes match rules by
		}
	}
	for _, f := range forged {
		b.MustRun(t, append(emit, f...)...)
	}
	// The signals that systemd sends afterwards arrive behind the forgeries: after
	// them, the proxy has received those, too.
	b.Signal(b.Codex(), 9)
	r, _ := b.Until("restarted", func(status int, r bed.Report) bool { return bed.Ready(status, r) && r.Workers[0].RestartsTotal > 0 })
	w := r.Workers[0]
	assert.Equal(t, uint64(1), w.RestartsTotal)
	for _, tr := range w.Transitions {
		assert.NotEqual(t, probes.StartLimitHit, tr.Reason)
	}
	assert.Equal(t, 1, strings.Count(b.UnitJournal(bed.ProxyUnit), "readiness=false"), "only the real kill may flip readiness")
}

// connections are the unique bus names of the proxy.
func connections(b *bed.Bed) []string {
	b.T.Helper()
	pid := b.Properties(bed.ProxyUnit, "MainPID")["MainPID"]
	var names []string
	for l := range strings.Lines(b.MustRun(b.T, "busctl", "list", "--unique", "--no-legend")) {
		if f := strings.Fields(l); len(f) > 1 && f[1] == pid {
			names = append(names, f[0])
		}
	}
	require.NotEmpty(b.T, names)
	return names
}
