package dependenciescheck

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestProgramsThatCannotRun(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, nil, 0o644))
	assert.EqualError(t, Runnable(plain), "it is not executable")
	assert.EqualError(t, Runnable(dir), "it is not executable")
	assert.ErrorIs(t, Runnable("bin/sh"), os.ErrNotExist, "a relative path of PATH does not count")
	require.NoError(t, Runnable("/bin/sh"))
	defer func(dirs []string) { hidden = dirs }(hidden)
	hidden = []string{dir}
	require.NoError(t, os.Chmod(plain, 0o755))
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(plain, link))
	assert.ErrorIs(t, Runnable(link), ErrHidden)
}
