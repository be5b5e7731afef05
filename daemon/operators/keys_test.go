package operators

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/auth"
)

// A key that was revoked after a new process had read the file stays revoked.
func TestKeysChangedDuringAHandOff(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	file := filepath.Join(t.TempDir(), "api-keys")
	keys, err := auth.Parse(strings.NewReader("alice " + hash + "\nbob " + hash + "\n"))
	require.NoError(t, err)
	table := &KeyTable{keys: keys, named: file}
	require.NoError(t, os.WriteFile(file, []byte("bob "+hash+"\n"), 0o600))
	older := "alice " + hash + "\n"
	for _, s := range []KeyState{{}, {Keys: &older}} {
		require.NoError(t, table.Restore(s))
		assert.Equal(t, []string{"bob"}, keys.Names(), "the file is the newest")
	}
	require.NoError(t, os.WriteFile(file, []byte("bob"), 0o600))
	require.NoError(t, table.Restore(KeyState{}))
	assert.Equal(t, []string{"bob"}, keys.Names())
	require.NoError(t, table.Restore(KeyState{Keys: &older}))
	assert.Equal(t, []string{"alice"}, keys.Names())
	other := "carol " + hash + "\n"
	require.NoError(t, table.Restore(KeyState{Keys: &other, KeyFile: "/srv/other"}))
	assert.Equal(t, []string{"alice"}, keys.Names(), "those of another file")
}

// The journal names a key whose accounts are gone, once for each change; others have no line.
func TestKeysWithoutAnAccountAreLogged(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	keys, err := auth.Parse(strings.NewReader("alice " + hash + " accounts=x,y\nbob " + hash + " accounts=x,a\ncarol " + hash + "\n"))
	require.NoError(t, err)
	var log bytes.Buffer
	table := &KeyTable{keys: keys, accounts: []string{"a", "b"}, logger: slog.New(slog.NewTextHandler(&log, nil))}
	table.LogUnusable()
	assert.Equal(t, 1, strings.Count(log.String(), "\n"))
	assert.Contains(t, log.String(), "key=alice accounts=x,y")
}
