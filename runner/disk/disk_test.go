package disk

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

func TestWatch(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), make([]byte, 100_000), 0o600))
	assert.True(t, Watch(t.Context(), []string{dir}, 50_000, func(bytes int64) { assert.Greater(t, bytes, int64(50_000)) }))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.False(t, Watch(ctx, []string{dir}, 1<<30, func(int64) {}))
}
