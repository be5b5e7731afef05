package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/daemon/config"
)

// The file of the predecessor goes where the settings have turned it off or moved it:
// nothing would write it.
func TestTextfileOfThePredecessor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "codex-proxy.prom")
	fresh := func(textfile string) *Daemon {
		d, err := New(Settings{
			Config: &config.Config{Listen: "127.0.0.1:0", Textfile: textfile}, Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, d.listeners[0].Close()) })
		return d
	}
	require.NoError(t, os.WriteFile(path, nil, 0o644))
	left := fresh(path).state.save(time.Time{})
	for _, tc := range []struct {
		textfile string
		replaced bool
	}{{textfile: path}, {replaced: true}, {}} {
		d := fresh(tc.textfile)
		require.NoError(t, d.state.restore(left))
		if tc.replaced { // by a process that may write it again
			d.successor.Took(nil)
		}
		d.textfile.DropBefore()
		if tc.textfile == path || tc.replaced {
			assert.FileExists(t, path)
		} else {
			assert.NoFileExists(t, path)
		}
	}
}
