package integration

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/probes"
)

// wedgeUnits put a relay between the shim and codex, for the proxy's connection alone:
// the shim's own probe bypasses it. A stopped relay makes codex appear wedged to the
// proxy. The relay is restarted with its worker.
var wedgeUnits = map[string]string{
	"wedge.socket": "[Socket]\nListenStream=/run/wedge.sock\n",
	"wedge.service": `[Unit]
PartOf=` + workerUnit + `
JoinsNamespaceOf=` + workerUnit + `
[Service]
PrivateTmp=yes
ExecStart=/usr/lib/systemd/systemd-socket-proxyd /run/codex-worker/default/app-server.sock
`,
}

// A codex passes its own probe and answers nothing on the proxy's connection: turn after
// turn would end in idle_timeout. The second turn finds it wedged, and its watchdog
// restarts it.
func TestWedgedWorker(t *testing.T) {
	bothSuites(t, testWedgedWorker)
}

func testWedgedWorker(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, patient+"idle_timeout = \"2s\"\nhandshake_timeout = \"2s\"\n")
	for name, text := range wedgeUnits {
		require.NoError(t, b.WriteFile("/etc/systemd/system/"+name, []byte(text), 0o644))
	}
	unit, err := b.ReadFile("/usr/lib/systemd/system/codex-worker@.service")
	require.NoError(t, err)
	for l := range strings.Lines(string(unit)) {
		if strings.HasPrefix(l, "ExecStart=") {
			l = strings.Replace(l, "--relay-to %t/codex-worker/%i/app-server.sock", "--relay-to /run/wedge.sock", 1)
			b.dropIn(workerUnit, "wedge", "[Unit]\nWants=wedge.socket\n[Service]\nWatchdogSec=6s\nExecStart=\n"+l)
		}
	}
	b.MustRun(t, "systemctl", "daemon-reload")
	b.start()
	codex := b.codex()
	for range 2 { // a silent model is no fault of codex
		require.NoError(t, b.models.Script("text one", "gate never"))
		_, _, body := b.chat(true, "hi")
		assert.Contains(t, body, "idle_timeout")
	}
	assert.Equal(t, codex.Host, b.codex().Host)

	h := b.holdSDK()
	b.signal(b.onlyProcess("wedge.service"), unix.SIGSTOP)
	began := time.Now()
	for h.stream.Next() {
	}
	assert.ErrorContains(t, h.stream.Err(), "idle_timeout")
	ctx, cancel := context.WithTimeout(t.Context(), 2*bound)
	defer cancel()
	ended := make(chan outcome, 1)
	go func() { ended <- b.ask(ctx, true, "hi") }()
	r, _ := b.until("found out", func(status int, r report) bool {
		return r.Workers[0].Fault != "" && !ready(status, r)
	})
	assert.Equal(t, probes.HandshakeLost, r.Health.Readiness.Reason)
	assert.Contains(t, r.Health.Readiness.Details,
		"codex has answered nothing on the proxy's connection, twice for 2s; its watchdog restarts it")
	b.awaitJournal(workerUnit, "Failed with result 'watchdog'", bound)
	t.Logf("restarted by its watchdog after %s", time.Since(began))
	b.MustRun(t, "systemctl", "kill", "--signal=KILL", "wedge.service")
	b.until("ready", ready)
	assert.NotEqual(t, codex.Host, b.codex().Host)
	assert.Contains(t, b.ownLines("--priority=err..err"), "worker is wedged: its watchdog restarts it")
	assert.Contains(t, (<-ended).body, "[DONE]", "the turn ran again on the next worker process")
	b.models.Release("never")
	b.models.Release("finish")
}
