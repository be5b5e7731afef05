package main

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCollectorNetworks(t *testing.T) {
	for host, want := range map[string][]string{
		"": nil, "localhost": {"127.0.0.1/32", "::1/128"}, "10.1.2.3": {"10.1.2.3/32"}, "::ffff:10.1.2.3": {"10.1.2.3/32"},
		"fe80::1%eth0": {"fe80::1/128"}, "collector.example": {"0.0.0.0/0", "::/0"},
	} {
		var prefixes []netip.Prefix
		for _, p := range want {
			prefixes = append(prefixes, netip.MustParsePrefix(p))
		}
		assert.Equal(t, prefixes, collectorNetworks(host), host)
	}
}

func TestSendTracesSaysWhatIsWrong(t *testing.T) {
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
