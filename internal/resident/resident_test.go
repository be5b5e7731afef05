package resident

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// kept are values of the data that the start of the program has written.
var kept = map[string]fmt.Stringer{"builder": &strings.Builder{}}

func TestTrim(t *testing.T) {
	fmt.Fprint(kept["builder"].(*strings.Builder), "written")
	before := ofFiles(t)
	require.NoError(t, Trim())
	after := ofFiles(t)
	t.Logf("pages of files: %d kB, then %d kB", before, after)
	assert.Less(t, after, before)
	assert.Equal(t, "written", kept["builder"].String())
}

// Nothing that is written is among the segments.
func TestConstant(t *testing.T) {
	segments, err := constant()
	require.NoError(t, err)
	require.NotEmpty(t, segments)
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	found := 0
	for line := range strings.Lines(string(maps)) {
		var from, to uintptr
		var mode string
		_, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode)
		require.NoError(t, err, line)
		for _, s := range segments {
			if from < s.start+s.length && s.start < to {
				found++
				assert.NotContains(t, mode, "w", line)
			}
		}
	}
	assert.GreaterOrEqual(t, found, len(segments))
}

// ofFiles is how much memory of the process has pages of files, in kB.
func ofFiles(t *testing.T) (kB int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(status), "\nRssFile:")
	require.True(t, found)
	_, err = fmt.Sscan(rest, &kB)
	require.NoError(t, err)
	return kB
}
