package turnjournal_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/remotes/turnjournal"
)

// Whoever owns the directory of a remote that is stopped neither holds `codex-proxy remotes list` up, nor has root read
// another file.
func TestAFileThatIsNone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, turnjournal.File)
	require.NoError(t, unix.Mkfifo(path, 0o600))
	_, err := turnjournal.Read(dir)
	require.ErrorContains(t, err, "is no regular file")
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Symlink("/etc/passwd", path))
	_, err = turnjournal.Read(dir)
	require.ErrorIs(t, err, unix.ELOOP)
}
