// Package sqlitetest provides full disks for tests of databases.
package sqlitetest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// FullDisk is a directory on a file system of its own, of 1 MiB, which is full until
// room is called. It skips the test if the test may not mount one.
func FullDisk(t *testing.T) (dir string, room func()) {
	t.Helper()
	dir = t.TempDir()
	err := unix.Mount("none", dir, "tmpfs", 0, "size=1m")
	if errors.Is(err, unix.EPERM) && os.Getenv("CODEX_PROXY_TEST_REQUIRE") == "" {
		t.Skip("a file system cannot be mounted; run this as root")
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	filler := filepath.Join(dir, "filler")
	file, err := os.Create(filler)
	require.NoError(t, err)
	defer file.Close()
	for err == nil {
		_, err = file.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, err, unix.ENOSPC)
	return dir, func() { require.NoError(t, os.Remove(filler)) }
}
