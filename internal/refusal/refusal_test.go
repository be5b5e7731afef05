package refusal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// read is Read in the start with that INVOCATION_ID.
func read(t *testing.T, path, start string) string {
	t.Helper()
	t.Setenv(invocation, start)
	reason, err := Read(path)
	require.NoError(t, err)
	return reason
}

// A refusal reaches the processes of its own start, and those of no other.
func TestRefusalOfOneStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "refused", "temporal")
	assert.Empty(t, read(t, path, "a"), "neither the file nor its directory exist")
	require.NoError(t, Clear(path))
	require.NoError(t, Write(path, "port 1\nis  held"))
	assert.Equal(t, "port 1 is held", read(t, path, "a"))
	assert.Empty(t, read(t, path, "b"), "another start")
	require.NoError(t, Write(path, "port 2 is held"))
	assert.Equal(t, "port 2 is held", read(t, path, "b"))
	assert.Empty(t, read(t, path, "a"))
	require.NoError(t, Clear(path))
	assert.Empty(t, read(t, path, "b"))
}

// The main process reads the file as another user, and only root writes to its directory.
func TestOthersReadARefusal(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	path := filepath.Join(t.TempDir(), "refused", "temporal")
	require.NoError(t, Write(path, "x"))
	for name, mode := range map[string]os.FileMode{filepath.Dir(path): os.ModeDir | 0o755, path: 0o644} {
		info, err := os.Stat(name)
		require.NoError(t, err)
		assert.Equal(t, mode, info.Mode(), name)
	}
}

func TestRefusalsAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "refused", "temporal")
	require.NoError(t, Write(path, strings.Repeat("x", 3*longest)))
	assert.Len(t, read(t, path, os.Getenv(invocation)), longest)
	require.NoError(t, Write(path, "x"+strings.Repeat("\u00e9", longest)))
	assert.Equal(t, "x"+strings.Repeat("\u00e9", (longest-1)/2), read(t, path, os.Getenv(invocation)))
	require.NoError(t, os.WriteFile(path, []byte("\n"+strings.Repeat("y", 9*longest)), 0o600))
	assert.Less(t, len(read(t, path, "")), 2*longest)
}

func TestFaultsOfTheFile(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	below := filepath.Join(dir, "file", "temporal")
	require.ErrorContains(t, Write(below, "x"), "of an earlier refusal")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "dir", "full"), 0o700))
	require.ErrorContains(t, Clear(filepath.Join(dir, "dir")), "cannot remove the reason of an earlier refusal")
	require.ErrorContains(t, Write(filepath.Join(dir, "a", "b", "c"), "x"), "cannot write the reason of a refusal")
	_, err := Read(below)
	require.ErrorContains(t, err, "cannot read the reason of a refusal")
	_, err = Read(dir)
	require.ErrorContains(t, err, "cannot read the reason of a refusal")
}
