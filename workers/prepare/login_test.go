package prepare

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const stored = `{"auth_mode":"chatgpt","tokens":{"access_token":"a","refresh_token":"r"}}`

// loginHomes are homes of the worker w, which is logged in.
func loginHomes(t *testing.T) homes {
	t.Helper()
	dir := t.TempDir()
	h := homes{filepath.Join(dir, "codex-worker"), filepath.Join(dir, "codex-login")}
	require.NoError(t, os.MkdirAll(filepath.Join(h.workers, "w"), 0o700))
	require.NoError(t, os.Mkdir(h.logins, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(h.workers, "w", "auth.json"), []byte(stored), 0o600))
	return h
}

// stops returns a stopping that records the units.
func stops() (*[]string, stopping) {
	var stopped []string
	return &stopped, func(_ context.Context, names ...string) error {
		stopped = append(stopped, names...)
		return nil
	}
}

// A login moves there once, and back. One that is in the worker's home afterwards stays there.
func TestTheLoginMoves(t *testing.T) {
	h := loginHomes(t)
	stopped, stop := stops()
	own, kept := filepath.Join(h.workers, "w", "auth.json"), filepath.Join(h.logins, "w", "auth.json")
	require.NoError(t, os.Mkdir(filepath.Join(h.logins, "w"), 0o700), "systemd may have made it already")
	require.NoError(t, h.setApart(t.Context(), "w", stop))
	assert.Equal(t, []string{"codex-login@w.service"}, *stopped)
	assert.NoFileExists(t, own)
	assert.FileExists(t, kept)

	require.NoError(t, os.WriteFile(own, []byte("planted"), 0o600))
	require.NoError(t, h.setApart(t.Context(), "w", stop))
	text, err := os.ReadFile(kept)
	require.NoError(t, err)
	assert.JSONEq(t, stored, string(text))
	assert.Len(t, *stopped, 1, "a start that moves nothing stops nothing")

	require.ErrorContains(t, h.setBack(t.Context(), "w", stop), "file exists")
	require.NoError(t, os.Remove(own))
	require.NoError(t, h.setBack(t.Context(), "w", stop))
	assert.Equal(t, []string{"codex-login@w.socket", "codex-login@w.service"}, (*stopped)[3:])
	assert.FileExists(t, own)
	left, err := os.ReadDir(h.logins)
	require.NoError(t, err)
	assert.Empty(t, left)
	require.NoError(t, h.setBack(t.Context(), "w", stop))
}

// A worker without a login says what to do.
func TestNoLoginToMove(t *testing.T) {
	h := loginHomes(t)
	_, stop := stops()
	require.NoError(t, os.Remove(filepath.Join(h.workers, "w", "auth.json")))
	assert.EqualError(t, h.setApart(t.Context(), "w", stop), "codex is not logged in: run `codex-proxy accounts login w`")
	require.NoError(t, os.WriteFile(filepath.Join(h.logins, "w", "auth.json.new"), []byte(stored), 0o600))
	assert.NoError(t, h.setApart(t.Context(), "w", stop), "a new login waits for its unit")
}

// A move that was cut goes on.
func TestACutMove(t *testing.T) {
	h := loginHomes(t)
	_, stop := stops()
	require.NoError(t, os.Mkdir(filepath.Join(h.logins, "w"), 0o700))
	own, kept := filepath.Join(h.workers, "w", "auth.json"), filepath.Join(h.logins, "w", "auth.json")
	require.NoError(t, os.Rename(own, kept))
	require.NoError(t, h.setApart(t.Context(), "w", stop))
	text, err := os.ReadFile(kept)
	require.NoError(t, err)
	assert.True(t, strings.Contains(string(text), "refresh_token"))
}
