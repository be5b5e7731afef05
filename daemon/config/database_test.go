package config

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/postgres"
)

// With a database, the keys are those that it has had last, as old as the file.
func TestDatabase(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("STATE_DIRECTORY", dir)
	set := []string{"workers=[\"a\"]", `database.url="postgres://codex@db/codex"`, "database.keys_max_age=2h"}
	path := filepath.Join(dir, "config.toml")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	load := func() *Config {
		c, err := Load(path, set)
		require.NoError(t, err)
		return c
	}
	c := load()
	assert.Equal(t, filepath.Join(dir, "keys.cache"), c.KeyFile)
	assert.True(t, c.Keys.Outdated())
	assert.False(t, c.Keys.Open())
	require.NoError(t, os.WriteFile(c.KeyFile, []byte("alice "+noHash+"\n"), 0o600))
	assert.False(t, load().Keys.Outdated())
	assert.Equal(t, []string{"alice"}, load().Keys.Names())
	old := time.Now().Add(-3 * time.Hour)
	require.NoError(t, os.Chtimes(c.KeyFile, old, old))
	assert.True(t, load().Keys.Outdated())

	require.NoError(t, os.WriteFile(c.KeyFile, []byte("alice "+noHash+"\nbob "+noHash+" later=1\n"), 0o600))
	assert.Equal(t, []string{"alice"}, load().Keys.Names(), "of a newer version")
	require.NoError(t, os.WriteFile(c.KeyFile, []byte("alice"), 0o600))
	assert.True(t, load().Keys.Outdated())

	// A host that has had no keys of the database goes on with those of its file.
	require.NoError(t, os.Remove(c.KeyFile))
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	set = append(set, `api_keys="`+DefaultKeyFile+`"`)
	own := filepath.Join(dir, credential)
	require.NoError(t, os.WriteFile(own, []byte("own "+noHash+"\n"), 0o600))
	assert.Equal(t, []string{"own"}, load().Keys.Names())
	assert.False(t, load().Keys.Outdated())
	assert.True(t, load().Keys.Shared())
	require.NoError(t, os.WriteFile(own, nil, 0o600))
	assert.True(t, load().Keys.Outdated(), "no key is known")
	assert.False(t, load().Keys.Open())

	for text, want := range map[string]string{
		"database.url=x":                 "database.url: must be the URL",
		"database.ca=ca.pem":             "must be an absolute path",
		"database.keys_max_age=1s":       "must be between 1m and 8760h",
		"database.url=postgres://a:b@c/": "database.url: must",
	} {
		_, err := Load(path, append(set, text))
		assert.ErrorContains(t, err, want, text)
	}
}

// A service that has been upgraded by a reload still has the password of the owner, until it restarts.
func TestDatabaseRole(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	address, err := postgres.ParseAddress("postgres://codex@db/codex")
	require.NoError(t, err)
	reaches := func() (role, password string) {
		server, err := Database{Address: address}.Server("relay")
		require.NoError(t, err)
		return server.Address.User(), server.Password
	}
	role, password := reaches()
	assert.Equal(t, []string{"codex_service", ""}, []string{role, password})
	require.NoError(t, os.WriteFile(filepath.Join(dir, ownerCredential), []byte("owner's\n"), 0o600))
	role, password = reaches()
	assert.Equal(t, []string{"codex", "owner's"}, []string{role, password})
	require.NoError(t, os.WriteFile(filepath.Join(dir, serviceCredential), []byte(noPassword), 0o600))
	role, password = reaches()
	assert.Equal(t, []string{"codex_service", ""}, []string{role, password}, "restarted without a password")
	require.NoError(t, os.WriteFile(filepath.Join(dir, serviceCredential), []byte("service's\n"), 0o600))
	role, password = reaches()
	assert.Equal(t, []string{"codex_service", "service's"}, []string{role, password})
}

const noHash = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
