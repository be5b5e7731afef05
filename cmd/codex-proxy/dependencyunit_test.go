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
