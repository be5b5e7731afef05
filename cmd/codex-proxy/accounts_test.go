package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAccountsTakesNoNonsense(t *testing.T) {
	for _, args := range [][]string{
		nil, {"lst"}, {"list", "default"}, {"list", "--purge"}, {"login", "a", "b"}, {"login", "--json"}, {"login", "--purge"},
		{"add"}, {"add", "a", "--with-api-key"}, {"add", "a", "--json"}, {"remove"}, {"remove", "a", "--with-api-key"},
	} {
		got := try(t, append([]string{"accounts"}, args...)...)
		assert.Equal(t, exitUsage, got.status, args)
		assert.Empty(t, got.stdout)
		assert.Contains(t, got.stderr, "codex-proxy accounts", args)
	}
	got := try(t, "accounts", "add", "../x")
	assert.Equal(t, exitFailure, got.status)
	assert.Contains(t, got.stderr, "codex-proxy accounts add: ")
}
