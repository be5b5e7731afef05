package exec

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/sandbox"
	"codex-proxy/runner/session"
)

// toolchains are a list of a program in a toolchain of a home, and of one that is gone.
func toolchains(t *testing.T) (list, seen string) {
	t.Helper()
	list = t.TempDir()
	seen = filepath.Join(list, "home/alice/.cargo/bin")
	require.NoError(t, os.MkdirAll(seen, 0o755))
	require.NoError(t, os.WriteFile(seen+"/cargo", []byte("#!/bin/sh\necho cargo $1 $INDEX\n"), 0o755))
	require.NoError(t, sandbox.WriteList(list, []sandbox.Toolchain{
		{Dir: "/home/alice/.cargo/bin", Seen: seen, User: true}, {Dir: "/opt/zig", Seen: "/opt/zig", Fault: "/opt/zig is not there"},
	}))
	return list, seen
}

// A command finds the programs of toolchains, by name and by their path on the host, and the variables of the settings,
// which its own ones precede.
func TestToolchains(t *testing.T) {
	list, seen := toolchains(t)
	tools := t.TempDir()
	require.NoError(t, os.WriteFile(tools+"/own", []byte("#!/bin/sh\necho own\n"), 0o755))
	for line, want := range map[string]string{
		`own; cargo x; echo "$PATH"`: "own\ncargo x secret\n" + tools + ":" + seen + ":/usr/bin:/bin",
		`INDEX=mine cargo x`:         "cargo x mine\n",
	} {
		spec := shell(line)
		spec.Sandbox = &sandbox.Given{Path: []string{tools}, Env: map[string]string{"INDEX": "secret"}}
		b := newBed(t, spec)
		b.Environ, b.Toolchains = []string{"PATH=/usr/bin:/bin"}, list
		result, output := b.run(t.Context())
		require.Nil(t, result.Failure)
		assert.Contains(t, output, want)
	}
	spec := shell("")
	spec.Args = []string{"/home/alice/.cargo/bin/cargo", "by path"}
	b := newBed(t, spec)
	b.Environ, b.Toolchains = []string{"PATH=/usr/bin:/bin"}, list
	_, output := b.run(t.Context())
	assert.Equal(t, "cargo by path\n", output)
}

// The error about a program names the toolchains that are not shown, and what a sandbox hides.
func TestUnfoundPrograms(t *testing.T) {
	list, _ := toolchains(t)
	for program, want := range map[string]string{
		"zig":                        "(/opt/zig is not there)",
		"/home/bob/.cargo/bin/cargo": "sessions do not see /home, but for the toolchains of [sandbox] in runner.toml",
	} {
		spec := shell("")
		spec.Args = []string{program}
		b := newBed(t, spec)
		b.Environ, b.Toolchains = []string{"PATH=/usr/bin:/bin"}, list
		result, _ := b.run(t.Context())
		require.NotNil(t, result.Failure)
		assert.Equal(t, session.NotFound, result.Failure.Stage)
		assert.Contains(t, result.Failure.Text, want)
	}
}
