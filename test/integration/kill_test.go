package integration

import (
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/probes"
)

// `systemctl kill` sends SIGTERM to all processes of a worker. The turn in flight is
// completed, and a request that comes meanwhile waits for the next start.
func TestKillOfAWorker(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ suite, whom, pending string }{
		{"trixie", "all", "4000"}, {"bookworm", "all", "4000"}, {"trixie", "main", "0000"},
	} {
		t.Run(c.suite+", "+c.whom, func(t *testing.T) {
			b := newBed(t, c.suite, realWorker, patient)
			b.start()
			h := b.holdSDK()
			codex := b.codex()
			b.MustRun(t, "systemctl", "kill", "--kill-whom="+c.whom, workerUnit)
			b.untilShow(workerUnit, "SubState", "stop-sigterm")
			b.until("draining", func(_ int, r report) bool { return r.Health.Readiness.Reason == probes.Draining })
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", codex.Host))
			require.NoError(t, err)
			assert.Regexp(t, `(?m)^ShdPnd:\s+\w*`+c.pending+`$`, string(status), "SIGTERM waits, and does nothing")

			require.NoError(t, b.models.Script("text three"))
			next := make(chan string, 1)
			go func() {
				status, _, body := b.chat(false, "hello")
				next <- fmt.Sprint(status, " ", body)
			}()
			b.until("queued", func(_ int, r report) bool { return r.Queue.Depth == 1 })
			b.models.Release("finish")
			h.whole(t)
			assert.Regexp(t, `(?s)^200 .*three`, <-next)
			b.until("ready", ready)
			assert.NotEqual(t, codex.Host, b.codex().Host)
			assert.NotContains(t, b.journal(workerUnit), "it is killed")
		})
	}
}

// Without turns a kill and a stop are quick, and codex ends by itself.
func TestKillOfAnIdleWorker(t *testing.T) { bothSuites(t, testKillOfAnIdleWorker) }

func testKillOfAnIdleWorker(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.start()
	codex := b.codex()
	began := time.Now()
	b.MustRun(t, "systemctl", "kill", workerUnit)
	b.until("another one", func(status int, r report) bool {
		return status == http.StatusOK && r.Workers[0].RestartsTotal == 1
	})
	t.Logf("ready again after %s", time.Since(began))
	assert.NotEqual(t, codex.Host, b.codex().Host)
	assert.Contains(t, b.journal(workerUnit), "Deactivated successfully")
	r, _ := b.until("ready", ready)
	assert.Equal(t, "status 0 (success)", r.Workers[0].LastExit.String())
}
