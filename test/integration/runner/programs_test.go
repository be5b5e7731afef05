package runner

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"codex-proxy/runner/paths"
	"codex-proxy/test/bed"
)

// runnerPrograms are the installed programs of codex-runner.
var runnerPrograms = []string{"/usr/bin/codex-runner", paths.UnitProgram}

// buildRunner returns the directory of them.
func buildRunner(t *testing.T) (dir string) {
	t.Helper()
	dir, err := builtRunner()
	require.NoError(t, err)
	return dir
}

// builtRunner builds them, and the units that make makes, once for all tests: each build links the programs anew.
var builtRunner = sync.OnceValues(func() (dir string, err error) {
	out, err := exec.Command("make", "--silent", "--directory=../../..", onlineUnit, onlineEnvironmentUnit).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("make: %w: %s", err, out)
	}
	dir, err = filepath.Abs("../../../build/runner-test")
	if err != nil {
		return "", err
	}
	return dir + "/", bed.Build(context.Background(), dir+"/", "", "codex-proxy/cmd/codex-runner", "codex-proxy/cmd/codex-runner-unit")
})
