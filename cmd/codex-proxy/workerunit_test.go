package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// workerUnit sets what systemd would set for codex-worker@w.service, and returns the runtime directory.
func workerUnit(t *testing.T, worker string) string {
	t.Helper()
	dir := t.TempDir()
	for name, sub := range map[string]string{"CONFIGURATION_DIRECTORY": "etc", "STATE_DIRECTORY": "state", "RUNTIME_DIRECTORY": "run"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, sub, "workers"), 0o755))
		t.Setenv(name, filepath.Join(dir, sub))
	}
	t.Setenv("CODEX_HOME", "")
	t.Setenv("PATH", "/nowhere")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "etc/workers/w.toml"), []byte(worker), 0o644))
	return filepath.Join(dir, "run")
}

func prepared(args ...string) (status int, stderr string) {
	var talk bytes.Buffer
	status = run(context.Background(), append([]string{"worker-prepare"}, args...), &bytes.Buffer{}, &talk)
	return status, talk.String()
}

func TestWorkerPrepareLinksTheDemoWorker(t *testing.T) {
	runtime := workerUnit(t, `mode = "demo"`)
	status, talk := prepared("w")
	assert.Zero(t, status)
	assert.Empty(t, talk)
	self, err := os.Executable()
	require.NoError(t, err)
	dest, err := os.Readlink(filepath.Join(runtime, "codex"))
	require.NoError(t, err)
	assert.Equal(t, self, dest)
}

func TestWorkerPrepareSaysWhatIsWrongInOneLine(t *testing.T) {
	for name, c := range map[string]struct{ worker, args, want string }{
		"unknown key": {"mode = \"plain\"\nmodle = \"x\"", "w", `/etc/workers/w.toml:2: unknown key "modle" (did you mean "model"?)`},
		"no file":     {``, "other", "/etc/workers/other.toml: no such worker file: `codex-proxy accounts add` makes one"},
	} {
		t.Run(name, func(t *testing.T) {
			workerUnit(t, c.worker)
			status, talk := prepared(c.args)
			assert.Equal(t, exitConfig, status)
			assert.True(t, strings.HasPrefix(talk, "codex-worker@"+c.args+": "), talk)
			assert.Contains(t, talk, c.want)
			assert.Equal(t, 1, strings.Count(talk, "\n"), talk)
		})
	}
}

func TestWorkerPrepareOutsideItsUnit(t *testing.T) {
	workerUnit(t, `mode = "demo"`)
	t.Setenv("RUNTIME_DIRECTORY", "")
	status, talk := prepared("w")
	assert.Equal(t, exitConfig, status)
	assert.Contains(t, talk, "systemctl start codex-worker@w")
}

func TestWorkerPrepareTakesOneName(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{nil, "codex-proxy worker-prepare: NAME is missing; see"}, {[]string{"a", "b"}, `codex-proxy worker-prepare: unexpected "b"; see`},
		{[]string{"../x"}, `cannot use "../x" as a worker name`}, {[]string{""}, `cannot use "" as a worker name`},
	} {
		status, talk := prepared(tc.args...)
		assert.Equal(t, exitUsage, status)
		assert.Contains(t, talk, tc.want)
	}
}
