package integration

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"codex-proxy/runner/paths"
	"codex-proxy/test/machine"
)

// TestLimits runs commands of codex-runner, workers and the proxy into their limits, on a kernel that enforces these. It
// is one test because the boot of such a machine takes longer than all that runs there.
func TestLimits(t *testing.T) {
	t.Parallel()
	codex, server := requireCodex(t), buildModelServer(t)
	program := buildRunner(t) + filepath.Base(paths.UnitProgram)
	bothSuitesInTurn(t, func(t *testing.T, suite string) {
		r := machine.Emulate(t, machine.Debian(suite), machine.Emulation{
			Packages: []string{os.Getenv("CODEX_PROXY_TEST_DEB")},
			Files:    slices.Concat(outOfMemoryFiles, runnerLimitsFiles(t)),
			Binds: []machine.Bind{{Source: codex, Target: "/usr/local/bin/codex"},
				{Source: server, Target: "/usr/local/bin/modelserver"}, {Source: program, Target: paths.UnitProgram}},
			Memory: 2048, Script: runnerLimitsScript + outOfMemoryScript, Timeout: 10 * time.Minute,
		})
		t.Run("commands in sessions", func(t *testing.T) { assertRunnerLimits(t, r) })
		t.Run("limits by the machine's memory", func(t *testing.T) { assertLimits(t, r) })
		t.Run("a tool that is killed ends no turn", func(t *testing.T) { assertToolKilled(t, r) })
		t.Run("a worker that is killed is named", func(t *testing.T) { assertWorkerKilled(t, r) })
		t.Run("the others live on", func(t *testing.T) { assertOthersLive(t, r) })
	})
}
