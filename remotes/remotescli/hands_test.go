package remotescli

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/wire"
)

// runnerOf is a codex-runner with one session of a user. It returns the requests that would end the session.
func (b *bed) runnerOf(t *testing.T, owner uint32) (cancelled *int) {
	t.Helper()
	b.Runner = filepath.Join(filepath.Dir(b.work), "runner.sock")
	l, err := net.Listen("unix", b.Runner)
	require.NoError(t, err)
	cancelled = new(int)
	handler := func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/cancel"):
			*cancelled++
		case r.Method != http.MethodGet:
			w.WriteHeader(http.StatusConflict)
			_ = json.NewEncoder(w).Encode(map[string]any{"error": wire.Error{Code: wire.Conflict, Message: "closed"}})
			return
		}
		_ = json.NewEncoder(w).Encode(wire.Session{Owner: wire.Owner{UID: owner}, State: wire.SessionIdle})
	}
	server := &http.Server{Handler: http.HandlerFunc(handler)}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	return cancelled
}

// Root ends no session of another user, and follows no link, whatever the user of a remote writes.
func TestRecordOfTheHandsIsNotTrusted(t *testing.T) {
	b := newBed(t)
	const nobody = 65534
	keeper := filepath.Join(b.Homes, "build", remotesManager)
	require.NoError(t, os.MkdirAll(keeper, 0o755))
	require.NoError(t, os.Chown(filepath.Dir(keeper), nobody, nobody))
	record := filepath.Join(keeper, "hands.json")
	require.NoError(t, os.WriteFile(record, []byte(`{"session":"abcdefghijklmnop"}`), 0o600))
	cancelled := b.runnerOf(t, 0)
	_, err := b.closeHands(t.Context(), "build")
	require.ErrorContains(t, err, "belongs to another user")
	assert.Zero(t, *cancelled)

	require.NoError(t, os.Chown(filepath.Dir(keeper), 0, 0))
	session, err := b.closeHands(t.Context(), "build")
	require.NoError(t, err)
	assert.Equal(t, "abcdefghijklmnop", session)
	assert.Equal(t, 1, *cancelled)

	other := filepath.Join(b.work, "other.json")
	require.NoError(t, os.Rename(record, other))
	require.NoError(t, os.Symlink(other, record))
	_, err = b.closeHands(t.Context(), "build")
	require.Error(t, err)
	require.NoError(t, os.Remove(record))
	require.NoError(t, syscall.Mkfifo(record, 0o600))
	_, err = b.closeHands(t.Context(), "build")
	require.ErrorContains(t, err, "is not a regular file")
	assert.Equal(t, 1, *cancelled)
}

// A branch goes where root alone decides.
func TestOurs(t *testing.T) {
	b := newBed(t)
	const nobody = 65534
	require.NoError(t, ours(b.work))
	link := filepath.Join(filepath.Dir(b.work), "link")
	require.NoError(t, os.Symlink("work", link))
	require.NoError(t, ours(link))
	require.NoError(t, os.Lchown(link, nobody, nobody))
	require.ErrorContains(t, ours(link), link+" belongs to another user")
	require.NoError(t, os.Remove(link))
	require.NoError(t, os.Symlink("link", link))
	require.ErrorContains(t, ours(link), "too many links")
}

// An entry of another program's is not in the list of commands.
func TestCommandsAreOfTheUnit(t *testing.T) {
	assert.Contains(t, journalOf("build"), "_SYSTEMD_UNIT=codex-remote@build.service")
}
