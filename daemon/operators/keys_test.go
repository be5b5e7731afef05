package operators

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// A reload that takes [database] into use goes on with the keys of the process before, until the database answers, and
// one that has none any more does not: the key file of the start may have revoked keys, or none.
func TestKeysBeforeAndAfterADatabase(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	keys := &auth.Keys{}
	keys.Confirm(time.Now(), time.Hour)
	cache := filepath.Join(t.TempDir(), "keys.cache")
	table := &KeyTable{keys: keys, named: cache}
	before := "alice " + hash + "\n"
	require.NoError(t, table.Restore(KeyState{Keys: &before, KeyFile: "/etc/codex-proxy/api-keys"}))
	assert.Equal(t, []string{"alice"}, keys.Names())
	newer := "bob " + hash + "\ncarol " + hash + " later=1\n"
	require.NoError(t, table.Restore(KeyState{Keys: &newer, KeyFile: cache, Shared: true}))
	assert.Equal(t, []string{"bob"}, keys.Names(), "a limit of a newer version")
	require.NoError(t, os.WriteFile(cache, []byte("dave "+hash+"\ncarol "+hash+" later=1\n"), 0o600))
	require.NoError(t, table.Restore(KeyState{}))
	assert.Equal(t, []string{"dave"}, keys.Names())
	state := table.State()
	assert.True(t, state.Shared)
	require.NotNil(t, state.Keys, "the cache may be gone")
	assert.Contains(t, *state.Keys, "dave ")

	assert.ErrorIs(t, checkFile(KeyState{Shared: true}, ""), errNeedsRestart)
	assert.NoError(t, checkFile(KeyState{Shared: true}, cache))
	assert.NoError(t, checkFile(KeyState{}, ""))
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
