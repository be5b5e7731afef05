package sessions

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/apitest"
	"codex-proxy/runner/api/wire"
)

func TestPrintSetup(t *testing.T) {
	dir := repository(t)
	printed := func(below string) string {
		t.Helper()
		var b strings.Builder
		require.NoError(t, PrintSetup(&b, filepath.Join(dir, below)))
		return b.String()
	}
	err := PrintSetup(&strings.Builder{}, dir)
	require.ErrorContains(t, err, "no set-up fits "+dir+": write .codex-runner.toml there with a script")
	put(t, dir, "web/package.json", "{}")
	put(t, dir, "go.mod", "module a\n")
	assert.Contains(t, printed("web"), "# go, by \"go.mod\"\n# npm, by \"web/package.json\"\n# again when these change: go.work ")
	assert.Contains(t, printed(""), "go mod download\n")
	put(t, dir, ".codex-runner.toml", "run = 'make'\ndir = 'web'\npath = ['bin']\ninputs = ['a', 'b/**']\n")
	assert.Equal(t, "# by .codex-runner.toml\n# again when these change: a b/**\n# in \"web\"\n# first in PATH: \"bin\"\nmake\n", printed(""))
	put(t, dir, ".codex-runner.toml", "rnu = 'make'\n")
	require.ErrorContains(t, PrintSetup(&strings.Builder{}, dir), `.codex-runner.toml:1: unknown key "rnu"`)
	require.ErrorContains(t, PrintSetup(&strings.Builder{}, dir+"/none"), "--repo: ")
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
}

// A command that gets no packages, though the repository has a set-up, is told of it.
func TestHintOfSetup(t *testing.T) {
	dir := repository(t)
	r := try(t, func(c *apitest.Command) { c.End(succeeded) })
	said := func(environment string) string {
		t.Helper()
		r.Source, r.New = dir, wire.NewSession{Environment: environment}
		r.stderr.Reset()
		status, text := r.run(t)
		require.Zero(t, status, text)
		return r.stderr.String()
	}
	assert.Empty(t, said(""), "nothing fits")
	put(t, dir, "go.mod", "module a\n")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "--quiet", "-m", "module")
	assert.Equal(t, "--repo "+dir+": no environment fits, and --env setup would run its set-up first: go (go.mod) (--env none leaves this line out)\n", said(""))
	for _, environment := range []string{"none", "setup"} {
		assert.Empty(t, said(environment), environment)
	}
	put(t, dir, "requirements.txt", "")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "--quiet", "-m", "packages")
	assert.Empty(t, said(""), "auto has an environment")
}
