package exec

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The threads stay when nothing needs them.
func TestThreadsAreSpare(t *testing.T) {
	threads := func() int {
		entries, err := os.ReadDir("/proc/self/task")
		require.NoError(t, err)
		return len(entries)
	}
	n := threads() + spareCount
	makeThreads(n)
	assert.GreaterOrEqual(t, threads(), n)
}
