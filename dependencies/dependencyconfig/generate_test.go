package dependencyconfig

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const good = "command = [\"server\"]\n[probe]\ncheck = \"tcp:127.0.0.1:1\"\n"

// One file with a fault changes nothing for the others.
func TestGenerate(t *testing.T) {
	settings, dir := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"first.toml": good, "bad.toml": "comand = 1\n", "second.toml": good, "Not_a_name.toml": good, ".x.toml": good,
		"notes.txt": "",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(settings, name), []byte(text), 0o644))
	}
	require.NoError(t, os.Mkdir(filepath.Join(settings, "dir.toml"), 0o755))
	err := Generate(settings, dir)
	require.Error(t, err)
	assert.Contains(t, err.Error(), `bad.toml:1: unknown key "comand" (did you mean "command"?)`)
	assert.Contains(t, err.Error(), "dir.toml: cannot read the file: it is not a regular file")
	made, err := filepath.Glob(dir + "/*/*")
	require.NoError(t, err)
	assert.Equal(t, []string{
		dir + "/codex-dependency@first.service.d/50-settings.conf",
		dir + "/codex-dependency@second.service.d/50-settings.conf",
	}, made)
}

func TestGenerateWithoutFiles(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Generate(filepath.Join(dir, "none"), dir))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, entries)
}
