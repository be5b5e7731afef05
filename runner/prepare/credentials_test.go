package prepare

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/paths"
)

// secrets has the daemon keep a secret for the session.
func (b *bed) secrets() {
	b.t.Helper()
	dir := filepath.Join(b.RuntimeDir, paths.SecretsDir(id))
	require.NoError(b.t, os.MkdirAll(dir, 0o700))
	require.NoError(b.t, os.Chown(dir, daemon.uid, daemon.gid))
	require.NoError(b.t, writeAs(daemon, filepath.Join(dir, "TOKEN"), "the secret"))
}

// The session's user alone can read its secrets, of which End leaves nothing.
func TestSecrets(t *testing.T) {
	b := newBed(t)
	b.secrets()
	require.NoError(t, b.Prepare(t.Context(), id, b.notifier))
	<-b.passed
	lent := filepath.Join(b.Sessions, id, paths.CredentialsName)
	text, err := os.ReadFile(filepath.Join(lent, "secrets_TOKEN"))
	require.NoError(t, err)
	assert.Equal(t, "the secret", string(text))
	for path, mode := range map[string]os.FileMode{lent: os.ModeDir | 0o500, lent + "/secrets_TOKEN": 0o400} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, mode, info.Mode(), path)
		assert.Equal(t, user, b.owner(path), path)
	}
	require.NoError(t, b.End(id, systemd("success")))
	assert.NoDirExists(t, lent)
}

// A session without secrets has an empty directory.
func TestNoSecrets(t *testing.T) {
	b := newBed(t)
	require.NoError(t, b.Prepare(t.Context(), id, b.notifier))
	<-b.passed
	entries, err := os.ReadDir(filepath.Join(b.Sessions, id, paths.CredentialsName))
	require.NoError(t, err)
	assert.Empty(t, entries)
}
