package sharing

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const apart = "mode = \"plain\"\nnetwork = \"model\"\n"

func none(string) bool { return false }

func write(t *testing.T, dir string, files map[string]string) {
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".toml"), []byte(text), 0o644))
	}
}

func TestPlan(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"c": apart, "a": "# another text\n" + apart, "b": "network = \"model\"\nmode = 'plain'\n", "d": apart,
		"model": apart + "model = \"gpt-5\"\n", "native": "mode = \"native\"\nnetwork = \"model\"\n", "bad": "mode = 1\n",
		"host": "mode = \"plain\"\n", "demo": "mode = \"demo\"\nnetwork = \"model\"\n",
		"provider": apart + "model = \"m\"\n[provider]\nname = \"p\"\nbase_url = \"http://127.0.0.1:1\"\n",
	})
	all := []string{"provider", "native", "d", "c", "b", "a", "model", "bad", "host", "demo", "none"}
	assert.Equal(t, Hosts{"b": "a", "c": "a", "d": "a"}, Plan(dir, all, 1, none))
	assert.Equal(t, Hosts{"c": "a", "d": "b"}, Plan(dir, all, 2, none))
	assert.Equal(t, Hosts{}, Plan(dir, all, 4, none))
	assert.Equal(t, Hosts{"c": "b", "d": "b"}, Plan(dir, []string{"d", "c", "b"}, 1, none))
	assert.Equal(t, Hosts{"b": "a", "c": "a", "d": "a"}, Plan(dir, append(all, "a", "b"), 1, none), "a name twice")
	runs := func(name string) bool { return name == "c" || name == "model" }
	assert.Equal(t, Hosts{"a": "c", "b": "c", "d": "c"}, Plan(dir, all, 1, runs), "the codex that runs goes on")
	assert.Equal(t, Hosts{"b": "c", "d": "a"}, Plan(dir, all, 2, runs))
	assert.Equal(t, []string{"b", "c"}, Hosts{"c": "a", "b": "a", "d": "x"}.Served("a"))
}

// One codex does not serve any number of accounts.
func TestPlanOfManyAccounts(t *testing.T) {
	dir, names := t.TempDir(), []string{}
	for i := range 2*Most + 1 {
		names = append(names, fmt.Sprintf("w%03d", i))
		write(t, dir, map[string]string{names[i]: apart})
	}
	hosts := Plan(dir, names, 1, none)
	for _, host := range names[:3] {
		assert.Contains(t, []int{Most - 11, Most - 12}, len(hosts.Served(host)), host)
		assert.Empty(t, hosts[host])
	}
}

func TestConfigured(t *testing.T) {
	dir := t.TempDir()
	workers := filepath.Join(dir, "workers")
	require.NoError(t, os.Mkdir(workers, 0o755))
	runtime := filepath.Join(dir, "run")
	write(t, workers, map[string]string{"a": apart, "b": apart, "c": apart, ".b": apart})
	file := filepath.Join(dir, "config.toml")
	for text, want := range map[string]Hosts{
		"": nil, "[accounts]\nprocesses = \"all\"\n": nil, "[accounts]\nprocesses = 0\n": nil,
		"[accounts]\nprocesses = 1\n":                         {"b": "a", "c": "a"},
		"workers = [\"c\", \"b\"]\n[accounts]\nprocesses = 1": {"c": "b"},
		"[accounts]\nprocesses = 1\nwarm = 1\n":               nil,
		"[accounts]\nprocesses = 1\nwarm = \"all\"\n":         {"b": "a", "c": "a"},
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		hosts, err := Configured(file, workers, In(runtime))
		require.NoError(t, err)
		assert.Equal(t, want, hosts, text)
	}
	require.NoError(t, os.MkdirAll(filepath.Join(runtime, "b"), 0o755))
	require.NoError(t, os.WriteFile(file, []byte("[accounts]\nprocesses = 1\n"), 0o644))
	hosts, err := Configured(file, workers, In(runtime))
	require.NoError(t, err)
	assert.Equal(t, Hosts{"a": "b", "c": "b"}, hosts, "its codex runs")

	brokers := filepath.Join(dir, "brokers")
	require.NoError(t, os.Remove(filepath.Join(runtime, "b")))
	require.NoError(t, os.MkdirAll(filepath.Join(brokers, "c"), 0o755))
	hosts, err = Configured(file, workers, In(runtime, brokers))
	require.NoError(t, err)
	assert.Equal(t, Hosts{"a": "c", "b": "c"}, hosts, "its codex waits for a restart, and its broker runs")
	require.NoError(t, os.WriteFile(file, []byte("[accounts"), 0o644))
	_, err = Configured(file, workers, In(runtime))
	require.ErrorContains(t, err, "no accounts share a codex")
	hosts, err = Configured(filepath.Join(dir, "none"), workers, In(runtime))
	require.NoError(t, err)
	assert.Empty(t, hosts)
}

func TestMark(t *testing.T) {
	dir := t.TempDir()
	assert.Empty(t, Host(dir, "b"))
	path, err := Mark(dir, "b", "a-b")
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(dir, "codex-worker@b.service.d/serving-worker"), path)
	assert.Equal(t, "a-b", Host(dir, "b"))
	assert.Empty(t, Generated(dir, []string{"b"}), "it is not used")
	assert.Equal(t, Hosts{"b": "a-b"}, Generated(dir, []string{"a-b", "b"}))
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Symlink("../x", path))
	assert.Empty(t, Host(dir, "b"))
}
