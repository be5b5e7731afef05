package statefile_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/statefile"
)

func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "numbers.json")
	var got []int
	require.ErrorIs(t, statefile.Read(path, "numbers", 10, &got), fs.ErrNotExist)
	for range 2 { // the second one replaces the first
		require.NoError(t, statefile.Write(path, []int{1, 2}))
		require.NoError(t, statefile.Read(path, "numbers", 10, &got))
		assert.Equal(t, []int{1, 2}, got)
	}
	assert.ErrorContains(t, statefile.Read(path, "numbers", 3, &got), "is not a file of numbers", "it is longer")
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), info.Mode())
	require.Error(t, statefile.Write(path, func() {}))
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, files, 1, "no temporary file stays")
}
