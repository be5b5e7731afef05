package media

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A file is decoded into one buffer; text with escapes is in one more for a moment.
func TestFilesAreDecodedOnce(t *testing.T) {
	const size = 8 << 20
	for data, most := range map[string]uint64{
		"data:," + strings.Repeat("a", size) + "%20":               2,
		"data:," + strings.Repeat("a", size):                       1,
		"data:;base64," + strings.Repeat("YWFh", size/3):           1,
		"data:text/plain;base64," + strings.Repeat("YWFh", size/3): 1,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		text, err := File{Data: data}.Read("at")
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		assert.Greater(t, len(text), size-3)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, most*size+1<<20, "%.30s", data)
	}
}
