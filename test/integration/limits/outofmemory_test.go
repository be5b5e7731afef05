package limits

import (
	_ "embed"
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/probes"
	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
)

//go:embed outofmemory.sh
var outOfMemoryScript string

// outOfMemoryFiles are for outofmemory.sh.
var outOfMemoryFiles = []machine.File{
	{Path: "/etc/codex-proxy/config.toml", Data: []byte("log_level = \"debug\"\n")},
	{Path: bed.WorkerFile, Data: []byte("mode = \"demo\"\n")},
	{Path: "/etc/codex-proxy/workers/small.toml", Data: []byte(smallWorker)},
}

const smallWorker = `mode = "plain"
model = "small-model"
codex_path = "/usr/local/bin/codex"
[provider]
name = "test"
base_url = "http://127.0.0.1:18080/v1"
`

func buildModelServer(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "modelserver")
	require.NoError(t, bed.Build(t.Context(), path, "", "codex-proxy/test/modelserver/cmd/modelserver"))
	return path
}

// assertLimits compares the limits in the kernel with those of the units, for a worker,
// for all workers and for the daemon (at which it is slowed down, and at which it is
// killed).
func assertLimits(t *testing.T, r map[string]string) {
	kilobytes, err := strconv.ParseFloat(strings.TrimSuffix(r["total"], " kB\n"), 64)
	require.NoError(t, err)
	lines := strings.Fields(r["limits"])
	require.Len(t, lines, 6)
	for i, share := range []float64{.5, .6, .25, .35} {
		limit, err := strconv.ParseFloat(lines[i], 64)
		require.NoError(t, err)
		assert.InEpsilon(t, share*kilobytes*1024, limit, 0.001)
	}
	assert.Equal(t, []string{"0", "0"}, lines[4:], "swap")
}

func assertToolKilled(t *testing.T, r map[string]string) {
	var before bed.Report
	require.NoError(t, json.Unmarshal([]byte(r["tool"]), &before))
	w := workerNamed(t, before.Workers, "small")
	assert.True(t, w.Ready)
	assert.Zero(t, w.RestartsTotal)
	assert.Zero(t, w.OOMKillsTotal)
	assert.Contains(t, r["journal"], "out of memory: a process that the command has started was killed processes=1")
}

func assertWorkerKilled(t *testing.T, r map[string]string) {
	assert.Regexp(t, `codex-worker@small\.service .* killed by SIGKILL \(oom-kill\), (\d+m)?\d+s ago`, r["down"])
	assert.Regexp(t, `codex-worker@small\.service +active \(running\) +yes +ready +1 .* killed by SIGKILL \(oom-kill\), (\d+m)?\d+s ago`, r["up"])
	var after bed.Report
	require.NoError(t, json.Unmarshal([]byte(r["readyz"]), &after))
	w := workerNamed(t, after.Workers, "small")
	assert.True(t, w.Ready)
	assert.Equal(t, uint64(1), w.OOMKillsTotal)
	require.NotNil(t, w.LastExit)
	assert.Equal(t, []string{"oom-kill", "killed", "SIGKILL"},
		[]string{w.LastExit.Result, w.LastExit.Code, w.LastExit.Status})
	assert.Contains(t, r["metrics"], `codex_worker_oom_kills_total{worker="small"} 1`)
	assert.Contains(t, r["journal"], "out of memory: the command was killed")
	assert.Contains(t, r["journal"], `last_exit="killed by SIGKILL (oom-kill)"`)
	assert.Contains(t, r["journal"], "systemctl set-property codex-worker@small.service MemoryMax=SIZE")
}

func assertOthersLive(t *testing.T, r map[string]string) {
	assert.Contains(t, r["large.head"], "HTTP/1.1 200 OK", "the request ran again, with more memory")
	assert.Contains(t, r["large.head"], "X-Codex-Attempts: 2")
	assert.Equal(t, "0\n", r["restarts"], "of the daemon")
	var after bed.Report
	require.NoError(t, json.Unmarshal([]byte(r["readyz"]), &after))
	w := workerNamed(t, after.Workers, "default")
	assert.True(t, w.Ready)
	assert.Zero(t, w.RestartsTotal)
	assert.Contains(t, r["again"], "ok", "the daemon, after it was killed itself")
}

// assertStepped checks that requests were answered when the clock had been set days ahead, and back, by the same daemon.
func assertStepped(t *testing.T, r map[string]string) {
	for _, step := range []string{"+3day", "-5day"} {
		assert.Contains(t, r["stepped"+step+".head"], "HTTP/1.1 200 OK", step)
	}
	restarts := strings.Fields(r["steps"])
	require.Len(t, restarts, 3)
	assert.Equal(t, restarts[0], restarts[2])
}

func workerNamed(t *testing.T, list []probes.Worker, name string) probes.Worker {
	t.Helper()
	for _, w := range list {
		if w.Name == name {
			return w
		}
	}
	require.Fail(t, "no worker "+name)
	return probes.Worker{}
}
