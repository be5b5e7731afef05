package requires

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCheck(t *testing.T) {
	many := make([]string, most+1)
	for i := range many {
		many[i] = fmt.Sprintf("d%d", i)
	}
	for _, tc := range []struct {
		settings  Settings
		key, want string
	}{
		{Settings{}, "", ""},
		{Settings{Requires: []string{"temporal", "db"}, BindRequires: true, ReadyRequires: true}, "", ""},
		{Settings{Requires: []string{"Temporal"}}, "requires", `"Temporal"`},
		{Settings{Requires: []string{"db", "db"}}, "requires", "twice"},
		{Settings{Requires: many}, "requires", "33 dependencies"},
		{Settings{BindRequires: true}, "bind_requires", "names no dependency"},
		{Settings{ReadyRequires: true}, "ready_requires", "names no dependency"},
	} {
		fault := tc.settings.Check()
		if tc.key == "" {
			assert.Nil(t, fault)
			continue
		}
		require.NotNil(t, fault, tc.want)
		assert.Equal(t, tc.key, fault.Key)
		assert.Contains(t, fault.Text, tc.want)
		assert.NotEmpty(t, fault.Remedy)
	}
}

// All reads the three keys of every file, whatever else is in it, and in a fixed order.
func TestAll(t *testing.T) {
	dir := settings(t, map[string]string{
		"config.toml":         "requires = [\"temporal\", \"db\"]\nready_requires = true\nno_such_key = 1\n",
		"workers/b.toml":      "mode = \"plain\"\nrequires = [\"db\"]\nbind_requires = true\n",
		"workers/a.toml":      "requires = [\"cache\"]\n[codex]\nrequires = 1\n",
		"workers/none.toml":   "mode = \"plain\"\n",
		"workers/broken.toml": "requires = \"db\"\n",
		"workers/.b.toml":     "requires = [\"other\"]\n",
	})
	all, err := All(dir)
	assert.ErrorContains(t, err, "broken.toml")
	require.Len(t, all, 3)
	assert.Equal(t, By{"codex-proxy.service", filepath.Join(dir, "config.toml"),
		Settings{Requires: []string{"temporal", "db"}, ReadyRequires: true}}, all[0])
	assert.Equal(t, By{"codex-worker@a.service", filepath.Join(dir, "workers/a.toml"),
		Settings{Requires: []string{"cache"}}}, all[1])
	assert.Equal(t, By{"codex-worker@b.service", filepath.Join(dir, "workers/b.toml"),
		Settings{Requires: []string{"db"}, BindRequires: true}}, all[2])
	assert.Equal(t, []string{"codex-proxy.service", "codex-worker@b.service"}, Of(all, "db"))
	assert.Equal(t, []string{"cache", "db", "temporal"}, Names(all))
}

func TestAllWithoutFiles(t *testing.T) {
	all, err := All(t.TempDir())
	assert.NoError(t, err)
	assert.Empty(t, all)
}

// The generator reads the files at boot: a pipe or a device must not hold it up.
func TestReadIsBounded(t *testing.T) {
	dir := t.TempDir()
	pipe, large := filepath.Join(dir, "pipe"), filepath.Join(dir, "large")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	require.NoError(t, os.WriteFile(large, []byte(strings.Repeat("#", maxFile+1)), 0o600))
	for file, want := range map[string]string{
		pipe: "is not a regular file", "/dev/zero": "is not a regular file", dir: "is not a regular file",
		large: "has more than",
	} {
		_, err := Read("x.service", file)
		assert.ErrorContains(t, err, want)
	}
}

func settings(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return dir
}
