package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/daemon/config"
)

// The program that sends gets the settings as variables, each once.
func TestEnvironmentOfTheSender(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "from=environment")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://other")
	settings := &config.Traces{Endpoint: "http://127.0.0.1:4318/v1/traces"}
	variables := func(header http.Header) (found []string) {
		for _, pair := range newTraceSender(settings, header, time.Minute).environment {
			if strings.HasPrefix(pair, "OTEL_") {
				found = append(found, pair)
			}
		}
		slices.Sort(found)
		return found
	}
	endpoint := "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:4318/v1/traces"
	assert.Equal(t, []string{endpoint, "OTEL_EXPORTER_OTLP_TRACES_HEADERS=from=environment"}, variables(nil))
	assert.Equal(t, []string{endpoint, "OTEL_EXPORTER_OTLP_TRACES_HEADERS=Authorization=Basic%20a=,X-Many=a%2C%20b"},
		variables(http.Header{"X-Many": {"a", "b"}, "Authorization": {"Basic a="}}))
}

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
