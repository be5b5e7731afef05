package workspace

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestChanged(t *testing.T) {
	o := newOrigin(t)
	changed := func(dir string) bool {
		t.Helper()
		is, err := Changed(t.Context(), dir)
		require.NoError(t, err)
		return is
	}
	assert.False(t, changed(o.dir), "without a commit")
	o.commit(map[string]string{"file": "one", ".gitignore": "made\n"})
	assert.False(t, changed(o.dir))
	put(t, filepath.Join(o.dir, "made"), "ignored")
	assert.False(t, changed(o.dir))
	put(t, filepath.Join(o.dir, "file"), "two")
	assert.True(t, changed(o.dir))
	o.commit(nil)
	assert.False(t, changed(o.dir))
	put(t, filepath.Join(o.dir, "new"), "")
	assert.True(t, changed(o.dir))

	bare := filepath.Join(t.TempDir(), "bare.git")
	o.git("clone", "--quiet", "--bare", o.dir, bare)
	assert.False(t, changed(bare))
	index := filepath.Join(o.dir, ".git", "index")
	before, err := os.Stat(index)
	require.NoError(t, err)
	assert.True(t, changed(o.dir))
	after, err := os.Stat(index)
	require.NoError(t, err)
	assert.Equal(t, before.ModTime(), after.ModTime())
	assert.True(t, os.SameFile(before, after), "nothing was written")
}
