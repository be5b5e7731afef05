package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"codex-proxy/test/machine"
)

// hangingProgram is a codex that never answers. The package accepts nothing but a native program.
const hangingProgram = `package main

import "time"

func main() { time.Sleep(1 << 62) }
`

// Only the unit bounds the runs of codex before a start, and the end of such a start has its reason.
func TestSlowStart(t *testing.T) {
	bothSuites(t, func(t *testing.T, suite string) {
		b := newBed(t, suite, "mode = \"plain\"\ncodex_path = \"/opt/slow/codex\"\n", "start_timeout = \"1s\"\n",
			machine.Bind{Source: buildHanging(t), Target: "/opt/slow", ReadOnly: true})
		b.dropIn(workerUnit, "short", "[Service]\nTimeoutStartSec=2s\n")
		b.MustRun(t, "systemctl", "start", "codex.target")
		b.until("timed out", func(_ int, r report) bool {
			exit := r.Workers[0].LastExit
			return exit != nil && exit.Result == "timeout"
		})
		b.awaitJournal(workerUnit, "s: systemd has ended the start: the unit was stopped, or TimeoutStartSec= has passed", bound)
	})
}

func buildHanging(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	source := filepath.Join(dir, "codex.go")
	require.NoError(t, os.WriteFile(source, []byte(hangingProgram), 0o600))
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "codex"), source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	return dir
}
