package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each change of a dependency is one entry of the journal, with its reason.
func TestDependencyEvents(t *testing.T) { bothSuites(t, testDependencyEvents) }

func testDependencyEvents(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	hangs := strings.NewReplacer(`"tcp:127.0.0.1:9099"`, `"exec:test ! -e {runtime}/hang"`, `"1s"`,
		"\"1s\"\ntimeout = \"900ms\"\nfailures = 10").Replace(web) // a busy machine is no hang
	require.NoError(t, b.WriteFile(webFile, []byte(hangs), 0o644))
	b.MustRun(t, "systemctl", "daemon-reload")
	b.start()
	b.MustRun(t, "systemctl", "start", webUnit)
	b.logged("dependency-ready", "dependency=web", 1)

	b.MustRun(t, "systemctl", "kill", "--kill-whom=main", "--signal=SIGKILL", webUnit)
	b.logged("dependency-down", `killed by SIGKILL (signal)`, 1)
	b.logged("dependency-ready", "elapsed_ms=", 1)

	b.MustRun(t, "touch", "/run/codex-dependency/web/hang") // which a restart removes
	b.logged("dependency-down", "did not answer for 10s: systemd's watchdog killed it", 1)
	b.logged("dependency-ready", "elapsed_ms=", 2)

	b.MustRun(t, "systemctl", "stop", webUnit)
	b.logged("dependency-down", "reason=stopped", 1)
	b.MustRun(t, "systemctl", "start", webUnit)
	b.logged("dependency-ready", "elapsed_ms=", 3)
	b.logged("dependency-down", "dependency=web", 3)
	explained := b.MustRun(t, "journalctl", "--no-pager", "-x", "CODEX_EVENT=dependency-down", "-n", "1")
	require.Contains(t, explained, "A dependency does not run")
	require.Contains(t, explained, "`systemctl start "+webUnit+"` starts it")
}

// logged waits until that many entries of the event have the text, and requires that there are no more.
func (b *bed) logged(event, text string, times int) {
	b.t.Helper()
	deadline := time.Now().Add(bound)
	for {
		all := b.MustRun(b.t, "journalctl", "--no-pager", "-o", "cat", "-u", proxyUnit, "CODEX_EVENT="+event)
		n := 0
		for line := range strings.Lines(all) {
			if strings.Contains(line, text) {
				n++
			}
		}
		require.LessOrEqual(b.t, n, times, all)
		if n == times {
			return
		}
		require.True(b.t, time.Now().Before(deadline), "%d times %q of %s in:\n%s", n, text, event, all)
	}
}
