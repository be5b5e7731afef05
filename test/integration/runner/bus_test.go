package runner

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/runner/api/wire"
	ends "codex-proxy/runner/outcome"
	"codex-proxy/test/await"
	"codex-proxy/test/bed"
	"codex-proxy/test/nightly"
)

// busSeed is the seed of the order of the faults of TestRunnerBus.
const busSeed = 34

// busFaults take the bus or systemd away from the daemon.
func busFaults(b *daemonBed) []func() {
	return []func(){
		func() {
			b.MustRun(b.t, "systemctl", "reset-failed", "dbus.service")
			_, _, _ = b.Run(b.t.Context(), "systemctl", "reset-failed", "polkit.service") // unless it is not loaded
			b.MustRun(b.t, "systemctl", "restart", "dbus.service")
		},
		func() { b.MustRun(b.t, "systemctl", "daemon-reexec") },
	}
}

// TestRunnerBus restarts the bus and executes systemd anew while commands start. Each command runs once, and none fails for
// that.
func TestRunnerBus(t *testing.T) {
	commands, faults := nightly.Or(60, 24), nightly.Or(20, 8)
	bed.BothSuites(t, func(t *testing.T, suite string) {
		b := newDaemonBed(t, suite)
		var ids []string
		b.untilQueued(0) // the daemon is there
		b.MustRun(t, "systemctl", "stop", "dbus.socket", "dbus.service")
		for n := range commands {
			if n == 1 { // the first one waits for the bus
				b.MustRun(t, "systemctl", "start", "dbus.socket", "dbus.service")
			}
			ids = append(ids, b.create(script("echo ran; exit 3")).ID)
		}
		random := rand.New(rand.NewPCG(busSeed, uint64(len(suite))))
		for n := range faults {
			b.untilQueued(commands - (n+1)*commands/(faults+1))
			busFaults(b)[random.IntN(2)]()
		}
		for _, id := range ids {
			output, c := b.follow(id, 1)
			assert.Equal(t, "ran\n", string(output), id)
			assert.Equal(t, fmt.Sprint(ends.Failed, 3), fmt.Sprint(c.Outcome.Word, c.Outcome.Status), c.Outcome.Text)
		}
		var s wire.Status
		await.True(t, func() bool {
			b.send(http.MethodGet, "/v1/status", nil, &s)
			return s.Ready
		}, bed.Bound)
	})
}

// untilQueued waits until at most n commands wait.
func (b *daemonBed) untilQueued(n int) {
	b.t.Helper()
	await.True(b.t, func() bool {
		var s wire.Status
		b.send(http.MethodGet, "/v1/status", nil, &s)
		return s.Queued <= n
	}, bed.Bound)
}
