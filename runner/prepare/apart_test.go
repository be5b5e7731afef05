package prepare

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/paths"
)

// A kill between the two steps of a tree leaves one without its name, which the next session of the slot removes.
func TestTreeAfterAKill(t *testing.T) {
	slot := t.TempDir()
	require.NoError(t, makeApart(filepath.Join(slot, newTree+"abcdefghijklmnop")))
	for range 2 {
		require.NoError(t, makeTree(slot, id))
		entries, err := os.ReadDir(slot)
		require.NoError(t, err)
		require.Len(t, entries, 1)
		assert.Equal(t, paths.Tree, entries[0].Name())
	}
}
