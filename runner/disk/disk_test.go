package disk

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestTaken(t *testing.T) {
	dir := t.TempDir()
	empty := Taken(t.Context(), []string{dir}, math.MaxInt64)
	file := filepath.Join(dir, "a")
	require.NoError(t, os.WriteFile(file, make([]byte, 100_000), 0o600))
	require.NoError(t, os.Link(file, filepath.Join(dir, "b")))
	got := Taken(t.Context(), []string{dir, filepath.Join(dir, "none")}, math.MaxInt64) - empty
	assert.GreaterOrEqual(t, got, int64(100_000))
	assert.Less(t, got, int64(200_000), "a file with two names counts once")
}

// The home of a dynamic user is a link.
func TestTakenOfALink(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(dir+"/real", 0o700))
	require.NoError(t, os.WriteFile(dir+"/real/a", make([]byte, 100_000), 0o600))
	require.NoError(t, os.Symlink("real", dir+"/home"))
	require.NoError(t, os.Symlink(dir+"/real", dir+"/real/again"))
	got := Taken(t.Context(), []string{dir + "/home"}, math.MaxInt64)
	assert.GreaterOrEqual(t, got, int64(100_000))
	assert.Less(t, got, int64(200_000), "a link below the top is not followed")
}

func TestTakenOfEmptyFiles(t *testing.T) {
	dir := t.TempDir()
	before := Taken(t.Context(), []string{dir}, math.MaxInt64)
	for n := range 100 {
		require.NoError(t, os.WriteFile(fmt.Sprintf("%s/%d", dir, n), nil, 0o600))
	}
	assert.GreaterOrEqual(t, Taken(t.Context(), []string{dir}, math.MaxInt64)-before, int64(100*block))
}

// Root needs no right to a directory, so the walk has another user for the files (setfsuid(2)).
func TestTakenOfClosedDirectories(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can take another user")
	}
	const uid = 61001
	for _, mode := range []os.FileMode{0, 0o400, 0o100, 0o200} {
		dir := t.TempDir()
		closed := filepath.Join(dir, "closed")
		require.NoError(t, os.Mkdir(closed, 0o700))
		require.NoError(t, os.WriteFile(closed+"/a", make([]byte, 100_000), 0))
		require.NoError(t, os.Chmod(closed, mode))
		for _, path := range []string{dir, closed} {
			require.NoError(t, os.Chown(path, uid, uid))
		}
		w := newWalk(t.Context(), math.MaxInt64)
		w.uid = uid
		top, err := os.Open(dir)
		require.NoError(t, err)
		defer top.Close()
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // the thread ends with its user
			_, _, _ = unix.RawSyscall(unix.SYS_SETFSUID, uid, 0, 0)
			w.dir(top, 1)
		}()
		<-done
		assert.GreaterOrEqual(t, w.size, int64(100_000), mode)
		info, err := os.Stat(closed)
		require.NoError(t, err)
		assert.Equal(t, mode, info.Mode().Perm(), "it is as it was")
	}
}

func TestTakenOfADeepTree(t *testing.T) {
	dir := t.TempDir()
	fd, err := unix.Open(dir, unix.O_DIRECTORY, 0)
	require.NoError(t, err)
	for range maxDepth + 10 {
		require.NoError(t, unix.Mkdirat(fd, "d", 0o700))
		below, err := unix.Openat(fd, "d", unix.O_DIRECTORY, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Close(fd))
		fd = below
	}
	require.NoError(t, unix.Close(fd))
	assert.Greater(t, Taken(t.Context(), []string{dir}, 1<<40), int64(1<<40), "nobody hides files in the depth")
}

func TestWatch(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), make([]byte, 100_000), 0o600))
	assert.True(t, Watch(t.Context(), Files{Dirs: []string{dir}}, 50_000, func(bytes int64) { assert.Greater(t, bytes, int64(50_000)) }))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.False(t, Watch(ctx, Files{Dirs: []string{dir}}, 1<<30, func(int64) {}))
}

// A file without a name takes the disk while a process has it open.
func TestWatchOfUnnamedFiles(t *testing.T) {
	dir := t.TempDir()
	file, err := os.Create(filepath.Join(dir, "a"))
	require.NoError(t, err)
	defer file.Close()
	_, err = file.Write(make([]byte, 10_000_000))
	require.NoError(t, err)
	require.NoError(t, os.Remove(file.Name()))
	assert.True(t, Watch(t.Context(), Files{Dirs: []string{dir}}, 9_000_000, func(int64) {}))
	w := newWalk(t.Context(), math.MaxInt64)
	w.trees([]string{t.TempDir()})
	w.devices = map[uint64]bool{}
	before := w.size
	w.unnamed("/proc")
	assert.Equal(t, before, w.size, "what lies elsewhere is bounded there")
}
