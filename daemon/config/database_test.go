package config

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

const noHash = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
