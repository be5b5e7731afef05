package survey

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A host may run for years.
func TestStartOf(t *testing.T) {
	h := Machine{Root: t.TempDir()}
	require.NoError(t, os.MkdirAll(filepath.Join(h.Root, "proc/7"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(h.Root, "proc/stat"), []byte("cpu 1\nbtime 1000000000\n"), 0o600))
	stat := "7 (a) b) S " + strings.Repeat("0 ", 18) + "31536000000 0\n" // ten years in ticks
	require.NoError(t, os.WriteFile(filepath.Join(h.Root, "proc/7/stat"), []byte(stat), 0o600))
	assert.Equal(t, time.Unix(1_315_360_000, 0), h.StartOf(7))
}
