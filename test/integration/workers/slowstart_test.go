package workers

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
)

// hangingProgram is a codex that never answers. The package accepts nothing but a native program.
const hangingProgram = `package main

import "time"

func main() { time.Sleep(1 << 62) }
`

// Only the unit bounds the runs of codex before a start, and the end of such a start has its reason.
func TestSlowStart(t *testing.T) {
	bed.BothSuites(t, func(t *testing.T, suite string) {
		b := bed.New(t, suite, "mode = \"plain\"\ncodex_path = \"/opt/slow/codex\"\n", "start_timeout = \"1s\"\n",
			machine.Bind{Source: buildHanging(t), Target: "/opt/slow", ReadOnly: true})
		b.DropIn(bed.WorkerUnit, "short", "[Service]\nTimeoutStartSec=2s\n")
		b.MustRun(t, "systemctl", "start", "codex.target")
		b.Until("timed out", func(_ int, r bed.Report) bool {
			exit := r.Workers[0].LastExit
			return exit != nil && exit.Result == "timeout"
		})
		b.AwaitJournal(bed.WorkerUnit, "s: systemd has ended the start: the unit was stopped, or TimeoutStartSec= has passed", bed.Bound)
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
