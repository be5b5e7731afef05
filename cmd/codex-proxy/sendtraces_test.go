package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSendTracesRefusesBadSettings(t *testing.T) {
	for _, command := range []string{"send-traces", "traces-prepare"} {
		got := try(t, command, "--config", configured(t, "[traces]\nendpoint = 'x'"))
		assert.Equal(t, exitConfig, got.status)
		assert.Contains(t, got.stderr, "codex-proxy "+command+": ")
		assert.Contains(t, got.stderr, "traces.endpoint: must be the URL")
	}
	good := configured(t, "[traces]\nendpoint = 'http://127.0.0.1:4318'")
	got := try(t, "send-traces", "--config", good, "--exit-idle-time", "0s")
	assert.Equal(t, exitUsage, got.status)
	headers := filepath.Join(t.TempDir(), "headers")
	require.NoError(t, os.WriteFile(headers, []byte("Authorization: planted"), 0o604))
	require.NoError(t, os.Chmod(headers, 0o604))
	got = try(t, "send-traces", "--config", good, "--headers", headers)
	assert.Equal(t, exitConfig, got.status)
	assert.Contains(t, got.stderr, "others must not read it")
	assert.NotContains(t, got.stderr, "planted")
	got = try(t, "send-traces", "--config", good)
	assert.Equal(t, exitFailure, got.status)
	assert.Contains(t, got.stderr, `cannot find the inherited socket "traces"`)
}
