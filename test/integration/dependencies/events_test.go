package dependencies

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
)

// Each change of a dependency is one entry of the journal, with its reason.
func TestDependencyEvents(t *testing.T) { bed.BothSuites(t, testDependencyEvents) }

func testDependencyEvents(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	hangs := strings.NewReplacer(`"tcp:127.0.0.1:9099"`, `"exec:test ! -e {runtime}/hang"`, `"1s"`,
		"\"1s\"\ntimeout = \"900ms\"\nfailures = 10").Replace(bed.Web) // a busy machine is no hang
	require.NoError(t, b.WriteFile(bed.WebFile, []byte(hangs), 0o644))
	b.MustRun(t, "systemctl", "daemon-reload")
	b.Start()
	b.MustRun(t, "systemctl", "start", bed.WebUnit)
	logged(b, "dependency-ready", "dependency=web", 1)

	b.MustRun(t, "systemctl", "kill", "--kill-whom=main", "--signal=SIGKILL", bed.WebUnit)
	logged(b, "dependency-down", `killed by SIGKILL (signal)`, 1)
	logged(b, "dependency-ready", "elapsed_ms=", 1)

	b.MustRun(t, "touch", "/run/codex-dependency/web/hang") // which a restart removes
	logged(b, "dependency-down", "did not answer for 10s: systemd's watchdog killed it", 1)
	logged(b, "dependency-ready", "elapsed_ms=", 2)

	b.MustRun(t, "systemctl", "stop", bed.WebUnit)
	logged(b, "dependency-down", "reason=stopped", 1)
	b.MustRun(t, "systemctl", "start", bed.WebUnit)
	logged(b, "dependency-ready", "elapsed_ms=", 3)
	logged(b, "dependency-down", "dependency=web", 3)
	explained := b.MustRun(t, "journalctl", "--no-pager", "-x", "CODEX_EVENT=dependency-down", "-n", "1")
	require.Contains(t, explained, "A dependency does not run")
	require.Contains(t, explained, "`systemctl start "+bed.WebUnit+"` starts it")
}

// logged waits until that many entries of the event have the text, and requires that there are no more.
func logged(b *bed.Bed, event, text string, times int) {
	b.T.Helper()
	for deadline, pace := time.Now().Add(bed.Bound), (await.Pace{}); ; pace.Pause(b.T.Context()) {
		all := b.MustRun(b.T, "journalctl", "--no-pager", "-o", "cat", "-u", bed.ProxyUnit, "CODEX_EVENT="+event)
		n := 0
		for line := range strings.Lines(all) {
			if strings.Contains(line, text) {
				n++
			}
		}
		require.LessOrEqual(b.T, n, times, all)
		if n == times {
			return
		}
		require.True(b.T, time.Now().Before(deadline), "%d times %q of %s in:\n%s", n, text, event, all)
	}
}
