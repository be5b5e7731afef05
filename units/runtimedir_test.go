package units

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWorkerRuns(t *testing.T) {
	dirs := t.TempDir() + "/"
	assert.False(t, runs(dirs, "a"))
	require.NoError(t, os.Mkdir(filepath.Join(dirs, "a"), 0o700))
	assert.True(t, runs(dirs, "a"))
	assert.False(t, WorkerRuns("there-is-no-such-worker"))
}
