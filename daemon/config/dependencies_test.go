package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/units/requires"
)

func TestDependencies(t *testing.T) {
	path := writeWorkers(t, "requires = ['temporal', 'db']\nready_requires = true", map[string]string{
		"b":   plain + "\nrequires = ['search']\nbind_requires = true",
		"bad": "requires = 'search'", // an error at the start of that worker
		"not": plain + "\nrequires = ['other']",
	})
	dir := filepath.Join(filepath.Dir(path), "dependencies")
	require.NoError(t, os.Mkdir(dir, 0o755))
	for _, name := range []string{"db", "spare"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".toml"), nil, 0o644))
	}
	c, err := Load(path, []string{`workers=["b","bad"]`})
	require.NoError(t, err, "a dependency without a file is no fault of the settings")
	assert.Equal(t, []requires.By{
		{Unit: "codex-proxy.service",
			Settings: requires.Settings{Requires: []string{"temporal", "db"}, ReadyRequires: true}},
		{Unit: "codex-worker@b.service", File: filepath.Join(filepath.Dir(path), "workers/b.toml"),
			Settings: requires.Settings{Requires: []string{"search"}, BindRequires: true}},
	}, c.Dependencies.Requires)
	assert.Equal(t, []string{"db", "search", "spare", "temporal"}, c.Dependencies.Names())
	assert.Equal(t, []string{"search", "temporal"}, c.Dependencies.Missing())
}

func TestNoDependencies(t *testing.T) {
	c, err := Load(write(t, ""), nil)
	require.NoError(t, err)
	assert.Empty(t, c.Dependencies)
	assert.Empty(t, c.Dependencies.Names())
}

func TestFaultyRequires(t *testing.T) {
	for text, want := range map[string]string{
		"\nrequires = ['Db']":             `config.toml:2: requires: cannot use "Db" as the name of a dependency`,
		"requires = ['a', 'a']":           `config.toml:1: requires: "a" stands there twice; remove one of them`,
		"bind_requires = true":            `config.toml:1: bind_requires = true, and requires names no dependency`,
		"\n\nready_requires = true":       `config.toml:3: ready_requires = true, and requires names no dependency`,
		"require = ['a']":                 `config.toml:1: unknown key "require" (did you mean "requires"?)`,
		"requires = ['a']\n[models]\na=1": `config.toml:3: unknown key "models.a"`,
	} {
		_, err := Load(write(t, text), nil)
		assert.ErrorContains(t, err, want)
	}
	_, err := Load(write(t, ""), []string{`requires=["A"]`})
	assert.ErrorContains(t, err, "--set requires: ")
}
