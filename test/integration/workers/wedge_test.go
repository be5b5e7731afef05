package workers

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/probes"
	"codex-proxy/test/bed"
)

// wedgeUnits put a relay between the shim and codex, for the proxy's connection alone:
// the shim's own probe bypasses it. A stopped relay makes codex appear wedged to the
// proxy. The relay is restarted with its worker.
var wedgeUnits = map[string]string{
	"wedge.socket": "[Socket]\nListenStream=/run/wedge.sock\n",
	"wedge.service": `[Unit]
PartOf=` + bed.WorkerUnit + `
JoinsNamespaceOf=` + bed.WorkerUnit + `
[Service]
PrivateTmp=yes
ExecStart=/usr/lib/systemd/systemd-socket-proxyd /run/codex-worker/default/app-server.sock
`,
}

// A codex passes its own probe and answers nothing on the proxy's connection: turn after
// turn would end in idle_timeout. The second turn finds it wedged, and its watchdog
// restarts it.
func TestWedgedWorker(t *testing.T) {
	bed.BothSuites(t, testWedgedWorker)
}

func testWedgedWorker(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, bed.Patient+"idle_timeout = \"2s\"\nhandshake_timeout = \"2s\"\n")
	for name, text := range wedgeUnits {
		require.NoError(t, b.WriteFile("/etc/systemd/system/"+name, []byte(text), 0o644))
	}
	unit, err := b.ReadFile("/usr/lib/systemd/system/codex-worker@.service")
	require.NoError(t, err)
	for l := range strings.Lines(string(unit)) {
		if strings.HasPrefix(l, "ExecStart=") {
			l = strings.Replace(l, "--relay-to %t/codex-worker/%i/app-server.sock", "--relay-to /run/wedge.sock", 1)
			b.DropIn(bed.WorkerUnit, "wedge", "[Unit]\nWants=wedge.socket\n[Service]\nWatchdogSec=6s\nExecStart=\n"+l)
		}
	}
	b.MustRun(t, "systemctl", "daemon-reload")
	b.Start()
	codex := b.Codex()
	for range 2 { // a silent model is no fault of codex
		require.NoError(t, b.Models.Script("text one", "gate never"))
		_, _, body := b.Chat(true, "hi")
		assert.Contains(t, body, "idle_timeout")
	}
	assert.Equal(t, codex.Host, b.Codex().Host)

	h := bed.HoldSDK(b)
	b.Signal(b.OnlyProcess("wedge.service"), unix.SIGSTOP)
	began := time.Now()
	for h.Stream.Next() {
	}
	assert.ErrorContains(t, h.Stream.Err(), "idle_timeout")
	ctx, cancel := context.WithTimeout(t.Context(), 2*bed.Bound)
	defer cancel()
	ended := make(chan bed.Outcome, 1)
	go func() { ended <- b.Ask(ctx, true, "hi") }()
	r, _ := b.Until("found out", func(status int, r bed.Report) bool {
		return r.Workers[0].Fault != "" && !bed.Ready(status, r)
	})
	assert.Equal(t, probes.HandshakeLost, r.Health.Readiness.Reason)
	assert.Contains(t, r.Health.Readiness.Details,
		"codex has answered nothing on the proxy's connection, twice for 2s; its watchdog restarts it")
	b.AwaitJournal(bed.WorkerUnit, "Failed with result 'watchdog'", bed.Bound)
	t.Logf("restarted by its watchdog after %s", time.Since(began))
	b.MustRun(t, "systemctl", "kill", "--signal=KILL", "wedge.service")
	b.Until("ready", bed.Ready)
	assert.NotEqual(t, codex.Host, b.Codex().Host)
	assert.Contains(t, b.OwnLines("--priority=err..err"), "worker is wedged: its watchdog restarts it")
	assert.Contains(t, (<-ended).Body, "[DONE]", "the turn ran again on the next worker process")
	b.Models.Release("never")
	b.Models.Release("finish")
}
