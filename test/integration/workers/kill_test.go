package workers

import (
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/probes"
	"codex-proxy/test/bed"
)

// `systemctl kill` sends SIGTERM to all processes of a worker. The turn in flight is
// completed, and a request that comes meanwhile waits for the next start.
func TestKillOfAWorker(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ suite, whom, pending string }{
		{"trixie", "all", "4000"}, {"bookworm", "all", "4000"}, {"trixie", "main", "0000"},
	} {
		t.Run(c.suite+", "+c.whom, func(t *testing.T) {
			b := bed.New(t, c.suite, bed.RealWorker, bed.Patient)
			b.Start()
			h := bed.HoldSDK(b)
			codex := b.Codex()
			b.MustRun(t, "systemctl", "kill", "--kill-whom="+c.whom, bed.WorkerUnit)
			b.UntilShow(bed.WorkerUnit, "SubState", "stop-sigterm")
			b.Until("draining", func(_ int, r bed.Report) bool { return r.Health.Readiness.Reason == probes.Draining })
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", codex.Host))
			require.NoError(t, err)
			assert.Regexp(t, `(?m)^ShdPnd:\s+\w*`+c.pending+`$`, string(status), "SIGTERM waits, and does nothing")

			require.NoError(t, b.Models.Script("text three"))
			next := make(chan string, 1)
			go func() {
				status, _, body := b.Chat(false, "hello")
				next <- fmt.Sprint(status, " ", body)
			}()
			b.Until("queued", func(_ int, r bed.Report) bool { return r.Queue.Depth == 1 })
			b.Models.Release("finish")
			h.Whole(t)
			assert.Regexp(t, `(?s)^200 .*three`, <-next)
			b.Until("ready", bed.Ready)
			assert.NotEqual(t, codex.Host, b.Codex().Host)
			assert.NotContains(t, b.UnitJournal(bed.WorkerUnit), "it is killed")
		})
	}
}

// Without turns a kill and a stop are quick, and codex ends by itself.
func TestKillOfAnIdleWorker(t *testing.T) { bed.BothSuites(t, testKillOfAnIdleWorker) }

func testKillOfAnIdleWorker(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	codex := b.Codex()
	began := time.Now()
	b.MustRun(t, "systemctl", "kill", bed.WorkerUnit)
	b.Until("another one", func(status int, r bed.Report) bool {
		return status == http.StatusOK && r.Workers[0].RestartsTotal == 1
	})
	t.Logf("ready again after %s", time.Since(began))
	assert.NotEqual(t, codex.Host, b.Codex().Host)
	assert.Contains(t, b.UnitJournal(bed.WorkerUnit), "Deactivated successfully")
	r, _ := b.Until("ready", bed.Ready)
	assert.Equal(t, "status 0 (success)", r.Workers[0].LastExit.String())
}
