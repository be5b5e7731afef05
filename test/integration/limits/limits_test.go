package limits

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/wire"
	runneroutcome "codex-proxy/runner/outcome"
	"codex-proxy/runner/session"
	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
)

// TestLimits runs commands of codex-runner, workers and the proxy into their limits, on a kernel that enforces these. It
// is one test because the boot of such a machine takes longer than all that runs there. That kernel is the same one
// beside both systemds, and its emulation takes minutes of CPU time: one of the two by day.
func TestLimits(t *testing.T) {
	codex, server := bed.RequireCodex(t), buildModelServer(t)
	bed.EitherSuite(t, func(t *testing.T, suite string) {
		r := machine.Emulate(t, machine.Debian(suite, "git"), machine.Emulation{
			Packages: []string{bed.Made(t, "CODEX_PROXY_TEST_DEB"), bed.Made(t, "CODEX_PROXY_TEST_RUNNER_DEB")},
			Files:    slices.Concat(outOfMemoryFiles, runnerLimitsFiles(t)),
			Binds: []machine.Bind{{Source: codex, Target: "/usr/local/bin/codex"},
				{Source: server, Target: "/usr/local/bin/modelserver"}},
			Memory: 2048, Script: "PS4='+ $EPOCHREALTIME '\n" + runnerLimitsScript + outOfMemoryScript, Timeout: 20 * time.Minute,
		})
		t.Run("commands in sessions", func(t *testing.T) { assertRunnerLimits(t, r) })
		t.Run("a command outlives the daemon", func(t *testing.T) { assertOutlivesDaemon(t, r) })
		t.Run("limits by the machine's memory", func(t *testing.T) { assertLimits(t, r) })
		t.Run("a tool that is killed ends no turn", func(t *testing.T) { assertToolKilled(t, r) })
		t.Run("a worker that is killed is named", func(t *testing.T) { assertWorkerKilled(t, r) })
		t.Run("the others live on", func(t *testing.T) { assertOthersLive(t, r) })
		t.Run("a clock that is set ends nothing", func(t *testing.T) { assertStepped(t, r) })
	})
}

//go:embed runnerlimits.sh
var runnerLimitsScript string

// runnerLimitsFiles are for runnerlimits.sh: the commands.
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
		spec.Timeout, spec.Grace, spec.OutputLimit = 10*time.Minute, time.Second, 1<<20
		switch name {
		case "bomb":
			spec.Timeout = 2 * time.Second
		case "disk":
			spec.Disk = 5_000_000
		case "neighbour":
			spec.OutputLimit = 64 << 20
		}
		text, err := session.Encode(&spec)
		require.NoError(t, err)
		files = append(files, machine.File{Path: "/srv/" + name + ".json", Data: text})
	}
	return files
}

func shell(script string) session.Spec { return session.Spec{Args: []string{"sh", "-c", script}} }

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

// assertOutlivesDaemon checks that a command went on when the kernel had killed codex-runner.service for its memory, and
// that the next daemon cancelled it.
func assertOutlivesDaemon(t *testing.T, r map[string]string) {
	assert.Contains(t, r["journal"], "codex-runner.service: Failed with result 'oom-kill'")
	assert.NotEqual(t, "0\n", r["restarts-runner"])
	var session wire.Session
	require.NoError(t, json.Unmarshal([]byte(r["lived"]), &session))
	require.Len(t, session.Commands, 1)
	require.NotNil(t, session.Commands[0].Outcome)
	assert.Equal(t, runneroutcome.Cancelled, session.Commands[0].Outcome.Word)
}

// neighbour does a little work again and again, and writes when each began, in seconds, and what it took, in microseconds.
const neighbour = `exec 3<> <(:); while :; do a=$EPOCHREALTIME; for ((i = 0; i < 100; i++)); do :; done; echo $a >n
b=$EPOCHREALTIME; echo $a $((10#${b/./} - 10#${a/./})); read -t 0.2 -u 3; done`

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
