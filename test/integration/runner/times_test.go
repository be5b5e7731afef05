package runner

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
	"codex-proxy/test/nightly"
)

// sandboxOf returns the options of systemd-run for a unit with the sandbox of a session.
func sandboxOf(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../../packaging/systemd/codex-session@.service")
	require.NoError(t, err)
	_, sandbox, found := strings.Cut(string(text), "LimitCORE=0\n")
	require.True(t, found)
	options := []string{"--property=DynamicUser=yes", "--property=Slice=codex-sessions.slice"}
	for line := range strings.Lines(sandbox) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			options = append(options, "--property="+line)
		}
	}
	return options
}

// TestRunnerTimes logs how long a session takes for `true`, beside systemd-run with the same sandbox in the same run,
// and what its main process needs in memory.
func TestRunnerTimes(t *testing.T) {
	bed.BothSuites(t, func(t *testing.T, suite string) {
		s := newRunnerBed(t, suite).session("times", 1)
		direct := append([]string{"systemd-run", "--quiet", "--wait", "--pipe"}, append(sandboxOf(t), "true")...)
		var beside, sessions []time.Duration
		for range nightly.Or(20, 3) {
			began := time.Now()
			s.MustRun(t, direct...)
			beside = append(beside, time.Since(began))
			s.next(shell("exit 0"))
			began = time.Now()
			s.MustRun(t, "systemctl", "start", "--wait", s.unit())
			sessions = append(sessions, time.Since(began))
		}
		slices.Sort(beside)
		slices.Sort(sessions)
		for what, times := range map[string][]time.Duration{"systemd-run": beside, "session": sessions} {
			t.Logf("%s: %s: median %v, fastest %v", suite, what, times[len(times)/2], times[0])
		}

		s.next(shell("exec sleep 4321"))
		s.MustRun(t, "systemctl", "start", s.unit())
		pid, err := s.MainPID(t.Context(), s.unit())
		require.NoError(t, err)
		resident, anonymous := bed.MemoryOf(t, machine.Process{Host: pid})
		t.Logf("%s: session-exec: %d kB resident, of which %d kB are no file", suite, resident, anonymous)
		s.MustRun(t, "systemctl", "stop", s.unit())
		assert.NotNil(t, s.ending().result)
	})
}
