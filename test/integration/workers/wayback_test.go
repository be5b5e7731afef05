package workers

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
)

// installFake installs a fake codex with the fault, for all that is not a turn over the real one.
func (b *copiesBed) installFake(version, fault string) {
	b.T.Helper()
	program := filepath.Join(b.T.TempDir(), "codex")
	out, err := exec.CommandContext(b.T.Context(), "go", "test", "-c", "-o", program, "../../../workers/canaryunit").CombinedOutput()
	require.NoError(b.T, err, string(out))
	require.NoError(b.T, b.CopyIn(program, "/root/fake-codex"))
	b.install(version, `cp /root/fake-codex $program; mkdir -p `+npm+`/codex-resources/real
		cp -r `+npm+`.good/bin `+npm+`/codex-resources/real/; echo `+fault+` >`+npm+`/codex-resources/fault`)
}

// A codex that passes its trial and breaks after 20 turns leads back to the one before: after few failed turns, which
// run again, so that no client notices.
func TestACodexThatBreaksLeadsBack(t *testing.T) {
	bed.EitherSuite(t, func(t *testing.T, suite string) {
		b := newCopiesBed(t, suite, bed.RealWorker, "follow")
		old := b.running(bed.WorkerUnit)
		b.installFake("0.171.901", "breaks")
		b.awaitRunning(bed.WorkerUnit, "0.171.901")
		b.Until("ready again", bed.Ready)
		again := 0
		for range 40 {
			out := b.Ask(t.Context(), false, "[[text fine]]")
			require.NoError(t, out.Err)
			require.Equal(t, 200, out.Status, out.Body)
			attempts, err := strconv.Atoi(out.Attempts)
			require.NoError(t, err)
			again += attempts - 1
		}
		t.Logf("%d turns failed", again)
		assert.Positive(t, again)
		assert.LessOrEqual(t, again, 5)
		assert.Equal(t, old, b.running(bed.WorkerUnit))
		assert.Contains(t, b.MustRun(t, "codex-proxy", "status"), "0.171.901 is installed and held back: 3 of its last 10 turns failed: no such table: threads")
		b.UntilMetric("codex_copies_backs_total 1")
		assert.Equal(t, 1, strings.Count(b.UnitJournal("codex-copies.service"), "codex is held back: turns on it fail, and the one before is in use again"))
	})
}

// No turn of a client runs on a codex that hangs, refuses a setting, answers no call of a tool or doubles its output:
// each is named within 30 s, and no request fails meanwhile.
func TestBadCodexesGetNoTurn(t *testing.T) {
	bed.EitherSuite(t, func(t *testing.T, suite string) {
		b := newCopiesBed(t, suite, bed.RealWorker, "follow")
		old := b.running(bed.WorkerUnit)
		stop := b.load(8)
		for i, tc := range []struct{ fault, reason string }{
			{"hangs", "it fails at the handshake: it has not finished within 10s"},
			{"refuses", "thread_unload_delay_secs"},
			{"no tools", "it fails at a turn with a tool: it has not finished within 10s"},
			{"doubles", "it fails at a plain turn: the model answered"},
		} {
			version := fmt.Sprintf("0.998.%d", i)
			b.installFake(version, "'"+tc.fault+"'")
			began := time.Now()
			await.True(t, func() bool {
				return strings.Contains(b.MustRun(t, "codex-proxy", "status"), version+" is installed and held back: it fails at ")
			}, bed.Bound, tc.fault)
			t.Logf("%s: named after %s", tc.fault, time.Since(began))
			assert.Contains(t, b.MustRun(t, "codex-proxy", "status"), tc.reason)
			assert.Equal(t, old, b.running(bed.WorkerUnit))
		}
		t.Logf("%d requests", stop())
	})
}
