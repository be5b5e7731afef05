package remoteconfig

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// One file with a fault changes nothing for the others.
func TestGenerate(t *testing.T) {
	settings, dir := t.TempDir(), t.TempDir()
	good, err := os.ReadFile("testdata/minimal.toml")
	require.NoError(t, err)
	for name, text := range map[string]string{
		"first.toml": string(good), "told.toml": string(good) + "[notify]\ncommand = [\"/usr/bin/true\"]\n", "bad.toml": "directry = 1\n", "Not_a_name.toml": string(good), "a.viewer.toml": string(good),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(settings, name), []byte(text), 0o644))
	}
	err = Generate(settings, dir)
	require.ErrorContains(t, err, `bad.toml:1: unknown key "directry" (did you mean "directory"?)`)
	made, err := filepath.Glob(dir + "/*/*")
	require.NoError(t, err)
	assert.Equal(t, []string{
		dir + "/codex-remote-notify@told.service.d/50-settings.conf", dir + "/codex-remote-notify@told.socket.d/50-settings.conf",
		dir + "/codex-remote@first.service.d/50-settings.conf", dir + "/codex-remote@first.socket.d/50-settings.conf",
		dir + "/codex-remote@told.service.d/50-settings.conf", dir + "/codex-remote@told.socket.d/50-settings.conf",
	}, made)
}

// Without the file of the key systemd would start nothing, and so nothing could name the fault.
func TestGenerateWithoutTheKey(t *testing.T) {
	settings, dir := t.TempDir(), t.TempDir()
	good, err := os.ReadFile("testdata/minimal.toml")
	require.NoError(t, err)
	key := filepath.Join(settings, "first.key")
	require.NoError(t, os.WriteFile(filepath.Join(settings, "first.toml"),
		fmt.Appendf(good, "key_file = %q\n", key), 0o644))
	dropIn := func() string {
		require.NoError(t, Generate(settings, dir))
		text, err := os.ReadFile(dir + "/codex-remote@first.service.d/50-settings.conf")
		require.NoError(t, err)
		return string(text)
	}
	assert.NotContains(t, dropIn(), "StandardInput")
	require.NoError(t, os.WriteFile(key, []byte("sk\n"), 0o600))
	assert.Contains(t, dropIn(), "StandardInput=file:"+key)
}

// The same for the token of hands elsewhere. The input never has another secret than the one that the settings name for it.
func TestGenerateWithoutTheToken(t *testing.T) {
	settings, dir := t.TempDir(), t.TempDir()
	token, key := filepath.Join(settings, "far.token"), filepath.Join(settings, "far.key")
	const table = "[hands]\nurl = \"wss://h/x\"\ntoken_file = %q\n"
	dropIn := func(text string) string {
		require.NoError(t, os.WriteFile(filepath.Join(settings, "far.toml"), []byte(text), 0o644))
		require.NoError(t, Generate(settings, dir))
		made, err := os.ReadFile(dir + "/codex-remote@far.service.d/50-settings.conf")
		require.NoError(t, err)
		return string(made)
	}
	alone := fmt.Sprintf(table, token)
	assert.NotContains(t, dropIn(alone), token)
	require.NoError(t, os.WriteFile(token, []byte("t\n"), 0o600))
	assert.Contains(t, dropIn(alone), "\nStandardInput=file:"+token+"\n")
	withKey := fmt.Sprintf("model = \"m\"\n[provider]\nname = \"p\"\nbase_url = \"https://p/v1\"\nkey_file = %q\n"+table, key, token)
	text := dropIn(withKey)
	assert.NotContains(t, text, "StandardInput", "the key is missing: its place has no token")
	assert.Contains(t, text, "\nLoadCredential=hands-token:"+token+"\n")
	require.NoError(t, os.WriteFile(key, []byte("sk\n"), 0o600))
	assert.Contains(t, dropIn(withKey), "\nStandardInput=file:"+key+"\n")
}

func TestGenerateWithoutFiles(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Generate(filepath.Join(dir, "none"), dir))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, entries)
}
