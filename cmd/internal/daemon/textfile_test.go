package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/cmd/internal/config"
)

// Nothing would write the file of the process before any more, where the settings
// have turned it off or moved it.
func TestTextfileOfThePredecessor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "codex-proxy.prom")
	fresh := func(textfile string) *Daemon {
		d, err := New(&config.Config{Listen: "127.0.0.1:0", Textfile: textfile}, slog.New(slog.DiscardHandler), nil, nil, "1")
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, d.listeners[0].Close()) })
		return d
	}
	require.NoError(t, os.WriteFile(path, nil, 0o644))
	left := fresh(path).remembered()
	for _, tc := range []struct {
		textfile string
		replaced bool
	}{{textfile: path}, {replaced: true}, {}} {
		d := fresh(tc.textfile)
		require.NoError(t, d.recall(left))
		if tc.replaced { // by a process that may write it again
			close(d.handoff.replaced)
		}
		d.dropTextfile()
		if tc.textfile == path || tc.replaced {
			assert.FileExists(t, path)
		} else {
			assert.NoFileExists(t, path)
		}
	}
}
