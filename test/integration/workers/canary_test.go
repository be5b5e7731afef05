package workers

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sync/errgroup"

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
)

// install puts a program in place of codex, by new files of the same names, as npm does. shell makes the program at
// $program from the one before, at $good.
func (b *copiesBed) install(version, shell string) {
	b.T.Helper()
	b.MustRun(b.T, "sh", "-ec", `good=`+npm+`.good/bin/codex program=`+npm+`/bin/codex
		[ -e `+npm+`.good ] || cp -r `+npm+` `+npm+`.good
		rm -rf `+npm+`; cp -r `+npm+`.good `+npm+`; rm $program
		`+shell+`
		echo '{"version":"`+version+`"}' >`+npm+`/codex-package.json`)
}

func (b *copiesBed) awaitRunning(unit, version string) {
	b.T.Helper()
	await.True(b.T, func() bool { return strings.Contains(b.program(unit), "/"+version+"-") }, bed.Bound, unit+" changes to "+version)
}

// program is the program of the codex of a unit; empty if none runs.
func (b *copiesBed) program(unit string) string {
	processes, err := b.Processes(unit)
	if err != nil {
		return ""
	}
	for _, p := range processes {
		program, _, _ := b.Run(b.T.Context(), "readlink", fmt.Sprintf("/proc/%d/exe", p.Inside))
		if program = bed.Trim(program); strings.HasSuffix(program, "bin/codex") {
			return program
		}
	}
	return ""
}

// load asks without a pause, and counts, until stop; every request has to succeed.
func (b *copiesBed) load(clients int) (stop func() int64) {
	ctx, cancel := context.WithCancel(b.T.Context())
	var done atomic.Int64
	var g errgroup.Group
	for range clients {
		g.Go(func() error {
			for ctx.Err() == nil {
				if out := b.Ask(context.WithoutCancel(ctx), false, "[[text under load]]"); out.Status != http.StatusOK {
					return fmt.Errorf("a request failed: %+v", out)
				}
				done.Add(1)
			}
			return nil
		})
	}
	return func() int64 {
		cancel()
		assert.NoError(b.T, g.Wait())
		return done.Load()
	}
}

// A good new codex is tried, and the worker and the remote change to it between their turns. One that does not run is
// held back, and no turn runs on it.
func TestANewCodexIsTriedFirst(t *testing.T) {
	bed.BothSuites(t, func(t *testing.T, suite string) {
		b := newCopiesBed(t, suite, bed.RealWorker, "follow")
		old := b.running(bed.WorkerUnit)
		stop := b.load(8)
		stream := bed.Hold(b.Bed, "installation")
		b.install("0.171.900", "cp $good $program")
		await.True(t, func() bool {
			return strings.Contains(b.MustRun(t, "cat", "/var/lib/codex-copies/state.json"), `"in_use": "0.171.900-`)
		}, bed.Bound, "it passes")
		assert.Equal(t, old, b.running(bed.WorkerUnit), "its turn runs")
		stream.Finish(b.Bed)
		assert.Positive(t, stop())
		began := time.Now()
		b.awaitRunning(bed.WorkerUnit, "0.171.900")
		b.awaitRunning(b.remote.Unit, "0.171.900")
		t.Logf("in use %s after the last turn", time.Since(began))
		b.Until("ready again", bed.Ready)
		status, _, answer := b.Chat(false, "[[text after]]")
		assert.Equal(t, 200, status, answer)
		assert.Empty(t, bed.Trim(b.MustRun(t, "sh", "-c", "find /run/codex-canary /run/private -mindepth 1 2>/dev/null; systemctl list-units --all --plain --no-legend 'codex-canary@*'")),
			"nothing of the canary stays")
		assert.NotContains(t, b.MustRun(t, "codex-proxy", "status"), "held back")

		stop = b.load(8)
		began = time.Now()
		b.install("0.998.0", "cp /bin/false $program")
		b.UntilMetric("codex_copies_held 1")
		t.Logf("held back after %s", time.Since(began))
		assert.Positive(t, stop())
		const why = "0.998.0 is installed and held back: it fails at "
		assert.Contains(t, b.MustRun(t, "codex-proxy", "status"), why)
		assert.Contains(t, b.MustRun(t, "sh", "-c", "codex-proxy doctor; true"), why)
		assert.Contains(t, b.running(bed.WorkerUnit), "/0.171.900-")
		assert.Equal(t, 0, strings.Count(b.UnitJournal(bed.WorkerUnit), "0.998.0"))
	})
}
