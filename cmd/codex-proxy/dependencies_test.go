package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/workers/homelock"
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

// lockExec runs lock-exec in a process of its own, which becomes the command.
func lockExec(t *testing.T, args ...string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], append([]string{"lock-exec"}, args...)...)
	c.Env = append(os.Environ(), asProgram+"=1", "NOTIFY_SOCKET=/run/x")
	out, err := c.CombinedOutput()
	return string(out), err
}

// The command has the lock, and none of the service manager's variables; its status is that of lock-exec.
func TestLockExec(t *testing.T) {
	file := filepath.Join(t.TempDir(), "my.lock")
	lock := "--lock=my.service:" + file
	out, err := lockExec(t, lock, "--", "sh", "-c", "ls -l /dev/fd/; echo socket=$NOTIFY_SOCKET; exit 4")
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, out)
	assert.Equal(t, 4, exit.ExitCode())
	assert.Contains(t, out, file)
	assert.Contains(t, out, "socket=\n")

	held, err := homelock.TakeFile(t.Context(), file)
	require.NoError(t, err)
	defer func() { require.NoError(t, held.Release()) }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no patience
	assert.Zero(t, run(ctx, []string{"lock-exec", lock, "--", "false"}, io.Discard, io.Discard), "it is not run")
}

func TestLockExecMisuse(t *testing.T) {
	for args, want := range map[string]struct {
		status    int
		complaint string
	}{
		"":                       {64, "no command: put it last, after --"},
		"--lock x -- true":       {64, "want HOLDER:DIR or HOLDER:FILE"},
		"-- /nowhere/x":          {203, `cannot start "/nowhere/x": stat /nowhere/x: no such file or directory`},
		"-- no-such-program-x y": {203, `cannot start "no-such-program-x": executable file not found in $PATH`},
	} {
		var stderr strings.Builder
		status := run(t.Context(), append([]string{"lock-exec"}, strings.Fields(args)...), io.Discard, &stderr)
		assert.Equal(t, want.status, status, args)
		assert.Contains(t, stderr.String(), want.complaint, args)
	}
}
