package workers

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
)

// installFake installs a fake codex with the fault, for all that is not a turn over the real one.
func (b *copiesBed) installFake(version, fault string) {
	b.T.Helper()
	b.fake.Do(b.copyFake)
	b.install(version, `cp /root/fake-codex $program; mkdir -p `+npm+`/codex-resources/real
		cp -r `+npm+`.good/bin `+npm+`/codex-resources/real/; echo `+fault+` >`+npm+`/codex-resources/fault`)
}

func (b *copiesBed) copyFake() {
	b.T.Helper()
	program, err := builtFake()
	require.NoError(b.T, err)
	require.NoError(b.T, b.CopyIn(program, "/root/fake-codex"))
}

// builtFake builds the fake codex once for all tests.
var builtFake = sync.OnceValues(func() (program string, err error) {
	program, err = filepath.Abs("../../../build/fake-codex")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("go", "test", "-c", "-trimpath", "-ldflags=-s -w", "-o", program, "../../../workers/canaryunit").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go test -c: %w: %s", err, out)
	}
	return program, nil
})

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

		// No file names the version of a bare program. Other bytes are another codex.
		b.MustRun(t, "sh", "-ec", "rm -r "+npm+"/codex-*; echo >>"+npm+"/bin/codex")
		await.True(t, func() bool {
			return strings.Contains(b.MustRun(t, "codex-proxy", "status"), "0.999.0 is installed and held back: it fails at ")
		}, bed.Bound, "its version is what it says in its trial")
	})
}

// A codex that passes its trial and does not start as a remote, whose command line the fake one refuses, leads back.
// The next message of the remote is for the one before.
func TestARemoteLeadsBack(t *testing.T) {
	bed.EitherSuite(t, func(t *testing.T, suite string) {
		b := newCopiesBed(t, suite, bed.RealWorker, "follow")
		old := b.running(b.remote.Unit)
		b.installFake("0.171.901", "breaks")
		b.awaitRunning(bed.WorkerUnit, "0.171.901")
		await.True(t, func() bool { return b.program(b.remote.Unit) != old }, bed.Bound, "the remote ends")
		await.True(t, func() bool { return b.program(b.remote.Unit) == old }, bed.Bound, "the remote runs the codex before")
		assert.Contains(t, b.MustRun(t, "codex-proxy", "status"),
			"0.171.901 is installed and held back: remote build is not ready 40s after its change: ")
		b.MustRun(t, "codex-proxy", "remotes", "send", b.remote.Name, "[[text fine]]")
		await.True(t, func() bool { return len(bed.TurnsWith(b.Bed, "[[text fine]]")) == 1 }, bed.Bound, "it asks")
	})
}
