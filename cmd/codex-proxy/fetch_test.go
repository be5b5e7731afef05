package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFetchRefusesBadSettings(t *testing.T) {
	for _, command := range []string{"fetch", "fetch-prepare"} {
		got := try(t, command, "--config", configured(t, "[images]\ntimeout = '2h'"))
		assert.Equal(t, exitConfig, got.status)
		assert.Contains(t, got.stderr, "codex-proxy "+command+": ")
		assert.Contains(t, got.stderr, `images.timeout = "2h0m0s": must be between`)
	}
	good := configured(t, "")
	got := try(t, "fetch", "--config", good, "--exit-idle-time", "0s")
	assert.Equal(t, exitUsage, got.status)
	assert.Contains(t, got.stderr, "want a positive time with its unit")
	got = try(t, "fetch", "--config", good)
	assert.Equal(t, exitFailure, got.status)
	assert.Contains(t, got.stderr, `cannot find the inherited socket "fetch"`)
}
