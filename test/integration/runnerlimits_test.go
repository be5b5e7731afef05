package integration

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	runneroutcome "codex-proxy/runner/outcome"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
	"codex-proxy/test/machine"
)

//go:embed runnerlimits.sh
var runnerLimitsScript string

// runnerLimitsFiles are for runnerlimits.sh: the commands, and the units of codex-runner, without its daemon.
func runnerLimitsFiles(t *testing.T) (files []machine.File) {
	t.Helper()
	specs := map[string]session.Spec{
		"neighbour": shell("exec bash -c '" + neighbour + "'"),
		"memory":    shell("tail /dev/zero"),
		"tasks":     shell("while :; do sleep 4321 & done"),
		"bomb":      shell(`cp /bin/sh /tmp/bomb; exec /tmp/bomb -c 'trap "" TERM; f() { f | f & }; f; sleep 4321'`),
		"disk":      shell("while :; do head -c 1000000 /dev/zero >>file; done"),
		"output":    shell("exec yes"),
	}
	for name, spec := range specs {
		spec.Version, spec.Slot, spec.Workspace = session.Version, 1+len(files), &session.Workspace{}
		spec.Timeout = 10 * time.Minute
		switch name {
		case "bomb":
			spec.Timeout = 2 * time.Second
		case "disk":
			spec.Disk = 20_000_000
		case "neighbour":
			spec.OutputLimit = 64 << 20
		}
		text, err := session.Encode(&spec)
		require.NoError(t, err)
		files = append(files, machine.File{Path: "/srv/" + name + ".json", Data: text})
	}
	for _, file := range []string{"packaging/systemd/codex-session@.service", "packaging/systemd/codex-sessions.slice",
		"packaging/tmpfiles/codex-runner.conf"} {
		text, err := os.ReadFile("../../" + file)
		require.NoError(t, err)
		files = append(files, machine.File{Path: runnerFiles[file] + filepath.Base(file), Data: text})
	}
	return files
}

// assertRunnerLimits checks that each end has its reason, by the report of the main process alone, and that a neighbour
// goes on.
func assertRunnerLimits(t *testing.T, r map[string]string) {
	for name, want := range map[string]runneroutcome.Word{
		"memory": runneroutcome.OutOfMemory, "tasks": runneroutcome.TaskLimit, "bomb": runneroutcome.TimedOut, "neighbour": runneroutcome.Cancelled,
		"disk": runneroutcome.DiskFull, "output": runneroutcome.OutputLimit,
	} {
		result, err := session.ReadResult(strings.NewReader(r[name+".result"]))
		require.NoError(t, err, name)
		ended, err := session.ReadEnded(strings.NewReader(r[name+".ended"]))
		require.NoError(t, err, name)
		got := runneroutcome.Decide(runneroutcome.Facts{Result: result})
		assert.Equal(t, want, got.Word, "%s: %s", name, got.Text)
		assert.Equal(t, "success", ended.ServiceResult, name)
		assert.Positive(t, ended.MemoryPeak, name)
		assert.GreaterOrEqual(t, ended.OOMKills, result.OOMKills, name)
		assert.GreaterOrEqual(t, ended.TaskLimit, result.TaskLimit, name)
		t.Logf("%s: %s", name, got.Text)
	}
	assert.Equal(t, "0\n", r["left"], "processes of the fork bomb")
	logNeighbour(t, r["phases"], r["neighbour.output"])
}

// neighbour does a little work again and again, and writes when each began, in seconds, and what it took, in microseconds.
const neighbour = `exec 3<> <(:); while :; do a=$EPOCHREALTIME; for ((i = 0; i < 1000; i++)); do :; done; echo $a >n
b=$EPOCHREALTIME; echo $a $((10#${b/./} - 10#${a/./})); read -t 0.02 -u 3; done`

// logNeighbour logs what the work of the neighbour took beside each of the others.
func logNeighbour(t *testing.T, phases, output string) {
	t.Helper()
	var began, took []float64
	for line := range strings.Lines(output) {
		var at, lasted float64
		_, err := fmt.Sscan(line, &at, &lasted)
		require.NoError(t, err, line)
		began, took = append(began, at), append(took, lasted)
	}
	lines := strings.Split(strings.TrimSpace(phases), "\n")
	for i, line := range lines[:len(lines)-1] {
		var name, next string
		var from, to float64
		_, err := fmt.Sscan(line+" "+lines[i+1], &name, &from, &next, &to)
		require.NoError(t, err, line)
		var beside []float64
		for n, at := range began {
			if at >= from && at < to {
				beside = append(beside, took[n]/1000)
			}
		}
		slices.Sort(beside)
		if n := len(beside); n > 0 {
			t.Logf("the neighbour beside %s: median %.1f ms, p99 %.1f ms of %d", name, beside[n/2], beside[n*99/100], n)
		}
	}
}

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
	out, err := exec.Command("make", "--silent", "--directory=../..", onlineUnit, onlineEnvironmentUnit).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("make: %w: %s", err, out)
	}
	dir, err = filepath.Abs("../../build/runner-test")
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-o", dir+"/", "../../cmd/codex-runner", "../../cmd/codex-runner-unit")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return dir + "/", nil
})
