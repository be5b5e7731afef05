package homelock

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// gone is a context that gives no time to wait.
func gone(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestAHomeHasOneHolder(t *testing.T) {
	home := t.TempDir()
	first, err := Take(t.Context(), home, "codex-worker@a.service")
	require.NoError(t, err)
	_, err = Take(gone(t), home, "another")
	assert.EqualError(t, err, "the home "+home+
		" is in use by codex-worker@a.service, and has one writer at a time")
	require.NoError(t, first.Release())
	second, err := Take(gone(t), home, "another")
	require.NoError(t, err)
	assert.ErrorContains(t, errOf(Take(gone(t), home, "third")), "in use by another")
	require.NoError(t, second.Release())
}

func errOf(_ *Lock, err error) error { return err }

// Take waits for a holder that is about to end.
func TestTakeWaits(t *testing.T) {
	home := t.TempDir()
	first, err := Take(t.Context(), home, "a")
	require.NoError(t, err)
	taken := make(chan error, 1)
	go func() {
		l, err := Take(t.Context(), home, "b")
		if err == nil {
			err = l.Release()
		}
		taken <- err
	}()
	require.NoError(t, first.Release())
	require.NoError(t, <-taken)
}

// The lock lives as long as a process that has inherited it, also after the end of the process that took it.
func TestAProcessInheritsTheLock(t *testing.T) {
	home := t.TempDir()
	l, err := Take(t.Context(), home, "a")
	require.NoError(t, err)
	child := exec.Command("sh", "-c", "read end")
	child.ExtraFiles = []*os.File{l.File()}
	end, err := child.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	require.NoError(t, l.Release())
	var held *HeldError
	require.ErrorAs(t, errOf(Take(gone(t), home, "b")), &held)
	require.NoError(t, end.Close())
	_ = child.Wait() // read fails at the end of its input
	l, err = Take(gone(t), home, "b")
	require.NoError(t, err)
	require.NoError(t, l.Release())
}

// The owner of a home puts other things in the place of the file.
func TestAHomeIsNotTrusted(t *testing.T) {
	_, err := Take(t.Context(), filepath.Join(t.TempDir(), "none"), "a")
	require.ErrorIs(t, err, fs.ErrNotExist)

	home, outside := t.TempDir(), filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(outside, []byte("text"), 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(home, FileName)))
	_, err = Take(t.Context(), home, "a")
	require.ErrorContains(t, err, "cannot lock the home "+home)
	text, err := os.ReadFile(outside)
	require.NoError(t, err)
	assert.Equal(t, "text", string(text))

	require.NoError(t, os.Remove(filepath.Join(home, FileName)))
	require.NoError(t, syscall.Mkfifo(filepath.Join(home, FileName), 0o600))
	_, err = Take(t.Context(), home, "a")
	require.ErrorContains(t, err, "is not a file")

	require.NoError(t, os.Remove(filepath.Join(home, FileName)))
	l, err := Take(t.Context(), home, "a")
	require.NoError(t, err)
	require.NoError(t, name(l.File(), "x\x1b[31my\nsecond line"))
	assert.ErrorContains(t, errOf(Take(gone(t), home, "b")), "in use by x[31my, and")
	require.NoError(t, l.Release())
}

// Root makes the file for the owner of the home.
func TestTheLockBelongsToTheOwnerOfTheHome(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	home := t.TempDir()
	require.NoError(t, os.Chown(home, 61234, 61235))
	l, err := Take(t.Context(), home, "a")
	require.NoError(t, err)
	require.NoError(t, l.Release())
	info, err := os.Stat(filepath.Join(home, FileName))
	require.NoError(t, err)
	st := info.Sys().(*syscall.Stat_t)
	assert.Equal(t, [2]uint32{61234, 61235}, [2]uint32{st.Uid, st.Gid})
	assert.Equal(t, os.FileMode(0o600), info.Mode())
}
