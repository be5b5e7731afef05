package sessions

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/apitest"
	"codex-proxy/runner/outcome"
)

func TestPrintSetup(t *testing.T) {
	dir := repository(t)
	printed := func(below string) string {
		t.Helper()
		var b strings.Builder
		require.NoError(t, PrintSetup(t.Context(), &b, filepath.Join(dir, below), ""))
		return b.String()
	}
	err := PrintSetup(t.Context(), &strings.Builder{}, dir, "")
	require.ErrorContains(t, err, "no set-up fits "+dir+": write .codex-runner.toml there with a script")
	put(t, dir, "web/environment.yml", "{}")
	put(t, dir, "requirements.txt", "")
	assert.Contains(t, printed("web"), "# venv, by \"requirements.txt\"\n# conda, by \"web/environment.yml\"\n# again when these change: requirements.txt ")
	assert.Contains(t, printed(""), "-m venv --clear")
	assert.Contains(t, printed(""), "# The set-up left web/environment.yml out: this host has no micromamba: install micromamba of ")
	assert.Contains(t, printed(""), "# In runner.toml, path and toolchains of [sandbox] show sessions what the host has elsewhere; --env none ")
	put(t, dir, ".codex-runner.toml", "run = 'make'\ndir = 'web'\npath = ['bin']\ninputs = ['a', 'b/**']\n")
	assert.Equal(t, "# by .codex-runner.toml\n# again when these change: a b/**\n# in \"web\"\n# first in PATH: \"bin\"\nmake\n", printed(""))
	put(t, dir, ".codex-runner.toml", "run = 'make'\ntest = 'make check'\n")
	assert.Contains(t, printed(""), "\nmake\n# then once, without the network, for the results:\nmake check\n")
	put(t, dir, ".codex-runner.toml", "rnu = 'make'\n")
	require.ErrorContains(t, PrintSetup(t.Context(), &strings.Builder{}, dir, ""), `.codex-runner.toml:1: unknown key "rnu"`)
	require.ErrorContains(t, PrintSetup(t.Context(), &strings.Builder{}, dir+"/none", ""), "--repo: ")
}

// A set-up that is printed runs no program of another user to ask for its version.
func TestProgramsOfAnotherUser(t *testing.T) {
	dir := t.TempDir()
	assert.True(t, trusted(dir+":/usr/bin:/nowhere"))
	if os.Geteuid() != 0 {
		t.Skip("takes root to give a directory away")
	}
	require.NoError(t, os.Chown(dir, 1, -1))
	assert.False(t, trusted("/usr/bin:"+dir))
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
}

// A note on the set-up of a command is on standard error, once.
func TestNoteOnTheSetup(t *testing.T) {
	for word, want := range map[outcome.Word]string{
		outcome.Succeeded: "No set-up fits.\n", outcome.Failed: "No set-up fits.\n", outcome.TimedOut: "",
	} {
		r := try(t, func(c *apitest.Command) {
			c.End(outcome.Outcome{Word: word, Note: "No set-up fits.", Text: "It ended."})
		})
		_, _ = r.run(t)
		assert.Equal(t, want, r.stderr.String(), word)
	}
}

// A set-up that is given goes to the service as it is, and is checked before.
func TestReadSetup(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "set-up.toml", "run = 'make'\n")
	text, err := ReadSetup(dir + "/set-up.toml")
	require.NoError(t, err)
	assert.Equal(t, "run = 'make'\n", text)
	var b strings.Builder
	require.NoError(t, PrintSetup(t.Context(), &b, repository(t), text))
	assert.Equal(t, "# by --setup\n# again when these change: \nmake\n", b.String())
	put(t, dir, "set-up.toml", "rnu = 'make'\n")
	_, err = ReadSetup(dir + "/set-up.toml")
	require.ErrorContains(t, err, dir+`/set-up.toml:1: unknown key "rnu"`)
	put(t, dir, "large.toml", strings.Repeat("#", 64<<10+1))
	_, err = ReadSetup(dir + "/large.toml")
	require.ErrorContains(t, err, "/large.toml has more than 64 KiB: call a script of the repository in it")
	_, err = ReadSetup(dir + "/none")
	require.ErrorContains(t, err, "cannot read the set-up: ")
	text, err = ReadSetup("")
	require.NoError(t, err)
	assert.Empty(t, text)
}
