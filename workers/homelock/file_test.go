package homelock

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The lock of a file, which two users may share, has one holder. Its name is not in the file.
func TestTakeFile(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	path := filepath.Join(t.TempDir(), "shared.lock")
	first, err := TakeFile(t.Context(), path)
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o644), info.Mode(), "another user can lock it")
	assert.EqualError(t, errOf(TakeFile(gone(t), path)), "the lock "+path+" is held by another process")
	require.NoError(t, first.Release())
	require.NoError(t, os.Chmod(path, 0o444))
	second, err := TakeFile(gone(t), path)
	require.NoError(t, err)
	require.NoError(t, second.Release())
}

func TestALockFileIsAFile(t *testing.T) {
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	require.NoError(t, os.Symlink("/etc/passwd", link))
	for path, complaint := range map[string]string{
		pipe: "is not a file", dir: "is not a file", link: "too many levels of symbolic links",
		filepath.Join(dir, "none", "lock"): "no such file or directory: name a file that this user can open",
	} {
		_, err := TakeFile(t.Context(), path)
		assert.ErrorContains(t, err, complaint)
		assert.ErrorContains(t, err, path)
	}
}

// Eight that start at once: one has the lock, although none of them finds the file.
func TestTakeFileAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	locks := make(chan *Lock, 8)
	for range cap(locks) {
		go func() {
			l, err := TakeFile(gone(t), path)
			var held *HeldError
			assert.True(t, err == nil || errors.As(err, &held), "%v", err)
			locks <- l
		}()
	}
	taken := 0
	for range cap(locks) {
		if l := <-locks; l != nil {
			taken++
			defer func() { require.NoError(t, l.Release()) }()
		}
	}
	assert.Equal(t, 1, taken)
}

// Root makes the file of a lock, and follows no link of another user there.
func TestMakeFile(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "lock")
	require.NoError(t, MakeFile("/", path))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o644), info.Mode())
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	require.NoError(t, MakeFile("/", path))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "x", string(text))

	require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, "link")))
	require.ErrorContains(t, MakeFile("/", filepath.Join(dir, "link", "lock")), "too many levels of symbolic links")
	require.NoError(t, os.Symlink(filepath.Join(elsewhere, "lock"), filepath.Join(dir, "dangling")))
	require.NoError(t, MakeFile("/", filepath.Join(dir, "dangling")))
	assert.NoFileExists(t, filepath.Join(elsewhere, "lock"))
	require.ErrorContains(t, MakeFile("/", filepath.Join(dir, "none", "lock")), "cannot make the lock")
}
