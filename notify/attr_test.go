package notify

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The command has the attributes, and Started is called while it exists.
func TestExecAttributes(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	started := false
	status, err := Exec(t.Context(), nil, slog.New(slog.DiscardHandler), Command{
		Args: []string{"/bin/sh", "-c", `readlink /proc/self/ns/user >"$1"`, "sh", out},
		Attr: &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
		},
		Started: func() error { started = true; return nil },
	})
	require.NoError(t, err)
	assert.Zero(t, status)
	assert.True(t, started)
	ours, err := os.Readlink("/proc/self/ns/user")
	require.NoError(t, err)
	theirs, err := os.ReadFile(out)
	require.NoError(t, err)
	assert.NotContains(t, string(theirs), ours)
}

func TestExecWhoseStartIsRefused(t *testing.T) {
	refused := errors.New("refused")
	_, err := Exec(t.Context(), nil, slog.New(slog.DiscardHandler), Command{
		Args: []string{"/bin/sleep", "600"}, Started: func() error { return refused },
	})
	assert.ErrorIs(t, err, refused)
}
