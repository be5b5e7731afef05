package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDependenciesTakesNoNonsense(t *testing.T) {
	for _, args := range [][]string{
		nil, {"lst"}, {"list", "a"}, {"list", "--purge"}, {"add"}, {"add", "a", "b"}, {"add", "a", "--json"},
		{"add", "a", "--preset"}, {"check"}, {"check", "a", "b"}, {"check", "a", "--watch"}, {"remove"},
		{"remove", "a", "--preset=x"},
	} {
		got := try(t, append([]string{"dependencies"}, args...)...)
		assert.Equal(t, exitUsage, got.status, args)
		assert.Empty(t, got.stdout)
		assert.Contains(t, got.stderr, "codex-proxy dependencies", args)
	}
}

func TestNamesOfDependencies(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	for _, command := range []string{"add", "check", "remove"} {
		got := try(t, "dependencies", command, "../x")
		assert.Equal(t, exitFailure, got.status)
		assert.Contains(t, got.stderr,
			"codex-proxy dependencies "+command+`: cannot use "../x" as the name of a dependency`)
	}
}

// The help of add names the presets of the package.
func TestHelpNamesThePresets(t *testing.T) {
	files, err := filepath.Glob("../../packaging/dependencies/*.toml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	help := strings.Join(strings.Fields(try(t, "dependencies", "add", "--help").stdout), " ")
	names := help[strings.Index(help, "the preset: "):strings.Index(help, "Without it")]
	assert.Len(t, strings.Split(strings.ReplaceAll(names, " or ", ", "), ", "), len(files))
	for _, file := range files {
		assert.Contains(t, names, strings.TrimSuffix(filepath.Base(file), ".toml"))
	}
}

// As the command of a unit without a valid file, check reports the fault to systemd, and fails for good.
func TestCheckAsACommandOfAUnit(t *testing.T) {
	next := fakeManager(t)
	got := try(t, "dependencies", "check", "no-such-dependency")
	assert.Equal(t, exitConfig, got.status)
	const fault = "/etc/codex-proxy/dependencies/no-such-dependency.toml: there is no such file"
	assert.Contains(t, got.stderr, "codex-proxy dependencies check: "+fault)
	assert.Contains(t, next(), "STATUS=Not started: "+fault)
}
