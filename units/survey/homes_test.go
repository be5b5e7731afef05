package survey

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// remover is a context that removes a directory as somebody asks for the third time whether it has ended.
type remover struct {
	context.Context //nolint:containedctx // it is one

	dir   string
	asked int
}

func (r *remover) Err() error {
	if r.asked++; r.asked == 3 { // for the home, its first entry, and that directory
		_ = os.Remove(r.dir)
	}
	return r.Context.Err()
}

// codex removes directories of its own at any time. The home is measured all the same.
func TestMeasureOfChangingHome(t *testing.T) {
	home := t.TempDir()
	gone := filepath.Join(home, "b")
	require.NoError(t, os.Mkdir(gone, 0o700))
	for _, name := range []string{"a", "c"} {
		require.NoError(t, os.WriteFile(filepath.Join(home, name), []byte("1234"), 0o600))
	}
	use, err := measure(&remover{Context: t.Context(), dir: gone}, home, noLog)
	require.NoError(t, err)
	assert.EqualValues(t, 8, use.bytes)
	_, err = measure(t.Context(), gone, noLog)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func noLog(string) bool { return false }
