package codexhome

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/strict"
)

func TestAFaultyWorkerFileIsRefusedInOneLine(t *testing.T) {
	for name, c := range map[string]struct{ doc, want string }{
		"slip": {"mode = \"plain\"\nmodle = \"x\"",
			`/w.toml:2: unknown key "modle" (did you mean "model"?)`},
		"slip in provider": {"mode = \"plain\"\nmodel = \"x\"\n[provider]\nname = \"a\"\nbaseurl = \"x\"",
			`/w.toml:5: unknown key "provider.baseurl" (did you mean "provider.base_url"?)`},
		"unknown table": {"mode = \"plain\"\n[features]\na = false",
			`/w.toml:2: unknown key "features": settings of codex itself go below [codex]`},
		"no mode": {"model = \"x\"", `/w.toml: mode is missing: choose "plain", "native" or "demo"`},
		"unknown mode": {"\n\nmode = \"chat\"", `/w.toml:3: unknown mode "chat": choose "plain", "native" or ` +
			`"demo"`},
		"type":   {"mode = 3", `/w.toml:1:`},
		"syntax": {"mode = \"plain\"\nmodel = \"x", `/w.toml:2:`},
		"relative path": {"mode = \"plain\"\ncodex_path = \"codex\"",
			`/w.toml:2: codex_path = "codex" is not an absolute path`},
		"workspace": {"mode = \"plain\"\nworkspace = \"/x\"",
			`/w.toml:2: a plain worker has no workspace: remove it, or set mode = "native"`},
		"url": {"mode = \"plain\"\nmodel = \"x\"\n[provider]\nname = \"a\"\nbase_url = \"localhost:80\"",
			`/w.toml:5: provider.base_url = "localhost:80" is not an http(s) URL`},
		"provider name": {"mode = \"plain\"\nmodel = \"x\"\n[provider]\nbase_url = \"http://a/v1\"",
			`/w.toml:3: provider.name = "" is not a name: use letters, digits, - and _`},
		"requires": {"mode = \"plain\"\nrequires = [\"Db\"]",
			`/w.toml:2: requires: cannot use "Db" as the name of a dependency`},
		"slip in requires": {"mode = \"plain\"\nrequire = [\"db\"]",
			`/w.toml:2: unknown key "require" (did you mean "requires"?)`},
		"binds to nothing": {"mode = \"plain\"\nbind_requires = true",
			`/w.toml:2: bind_requires = true, and requires names no dependency: name one in requires`},
		"provider no model": {"mode = \"plain\"\n[provider]\nname = \"a\"\nbase_url = \"http://a/v1\"",
			`/w.toml:2: model is missing: name the model that the [provider] serves`},
		"credential": {"mode = \"plain\"\nmodel = \"x\"\n[provider]\nname = \"a\"\n" +
			"base_url = \"http://a/v1\"\ncredential = \"../x\"",
			`/w.toml:6: provider.credential = "../x" is not the name of a credential`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse("/w.toml", []byte(c.doc))
			var problem *Problem
			require.ErrorAs(t, err, &problem)
			assert.True(t, strings.HasPrefix(err.Error(), c.want), "got %s", err)
			assert.NotContains(t, err.Error(), "\n")
		})
	}
}

// The shipped file is the manual of worker files: it must be valid, and so must every example in it.
func TestTheShippedWorkerFileIsValid(t *testing.T) {
	file := filepath.Join("..", "..", "packaging", "etc", "workers", "default.toml")
	w, err := Load(file)
	require.NoError(t, err)
	assert.Equal(t, Plain, w.Mode)
	assert.Empty(t, w.CodexPath+w.Model+w.Workspace)
	assert.Nil(t, w.Provider)
}

func TestTheShippedWorkerFileNamesEveryKey(t *testing.T) {
	doc := strings.NewReplacer("\nmode = \"plain\"", "\nmode = \"native\"", "\nnetwork = \"\"", "\nnetwork = \"model\"").Replace(
		shippedUncommented(t)) // for [hands]
	w, err := parse("/w.toml", []byte(doc))
	require.NoError(t, err)
	for _, key := range strict.Keys(rawWorker{}) {
		if slices.Contains([]string{"hands.url", "hands.token_file", "hands.ca_file"}, key) { // refused, with the reason
			continue
		}
		assert.True(t, w.lines.Has(key), "%s is not in the file", key)
	}
	assert.Equal(t, "medium", w.Extra["model_reasoning_effort"])
}
