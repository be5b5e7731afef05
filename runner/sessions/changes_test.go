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

func TestChanges(t *testing.T) {
	var asked wire.NewSession
	r := try(t, func(c *apitest.Command) {
		asked = c.Of
		c.End(succeeded)
	})
	run := func(changes Changes, source string, more wire.NewSession) {
		t.Helper()
		r.Source, r.New, r.Command.Directory, r.Changes = source, more, "", changes
		r.stderr.Reset()
		status, text := r.run(t)
		require.Zero(t, status, text)
	}
	dir := repository(t)
	base := git(t, dir, "rev-parse", "HEAD")
	run(ChangesOffered, dir, wire.NewSession{})
	assert.Equal(t, base, asked.Ref)
	assert.Empty(t, r.stderr.String())
	for name, text := range map[string]string{"file": "y", "new": "z", ".gitignore": "*.o\n", "made.o": ""} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	run(ChangesLeft, dir, wire.NewSession{})
	assert.Equal(t, base, asked.Ref)
	assert.Contains(t, r.stderr.String(), "the command runs without them (--dirty takes them along)")
	run(ChangesClean, dir, wire.NewSession{})
	assert.Equal(t, base, asked.Ref)
	assert.Empty(t, r.stderr.String())
	for _, other := range []wire.NewSession{{Ref: "main"}, {Patch: "a patch"}} {
		run(ChangesOffered, dir, other)
		assert.Equal(t, base, asked.Ref, "another state is meant")
		assert.Empty(t, r.stderr.String())
	}
	run(ChangesOffered, dir, wire.NewSession{})
	assert.NotEqual(t, base, asked.Ref)
	assert.Contains(t, r.stderr.String(), "with 3 changes that are not committed (--clean runs the commit alone)")
	dirty, key := asked.Ref, asked.Repository
	sent := r.daemon.Bundle(key)
	assert.True(t, strings.HasPrefix(string(sent), "# v2 git bundle\n-"+base+" \n"+dirty+" HEAD\n"), "the base is left out")
	run(ChangesTaken, dir, wire.NewSession{})
	assert.Equal(t, []any{dirty, sent, ""}, []any{asked.Ref, r.daemon.Bundle(key), r.stderr.String()}, "it is sent once")

	bare := filepath.Join(t.TempDir(), "bare.git")
	git(t, ".", "clone", "--quiet", "--bare", dir, bare)
	run(ChangesOffered, bare, wire.NewSession{})
	assert.Equal(t, base, asked.Ref)
	run(ChangesOffered, "https://example.org/a.git", wire.NewSession{})
}

// The base is sent first, so that changes that follow are small.
func TestChangesOfAnUnknownCommit(t *testing.T) {
	var asked wire.NewSession
	r := try(t, func(c *apitest.Command) {
		asked = c.Of
		c.End(succeeded)
	})
	dir := repository(t)
	base := git(t, dir, "rev-parse", "HEAD")
	for _, text := range []string{"1", "2"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o644))
		r.Source, r.New, r.Changes = dir, wire.NewSession{}, ChangesTaken
		status, text := r.run(t)
		require.Zero(t, status, text)
		assert.True(t, strings.HasPrefix(string(r.daemon.Bundle(asked.Repository)),
			"# v2 git bundle\n-"+base+" \n"+asked.Ref+" HEAD\n"))
	}
	made := t.TempDir()
	git(t, made, "init", "--quiet")
	require.NoError(t, os.WriteFile(filepath.Join(made, "file"), []byte("x"), 0o644))
	r.Source, r.New = made, wire.NewSession{}
	status, text := r.run(t)
	require.Zero(t, status, text)
	assert.True(t, strings.HasPrefix(string(r.daemon.Bundle(asked.Repository)), "# v2 git bundle\n"+asked.Ref+" HEAD\n"),
		"a repository without a commit")
}

func TestChangesThatCannotBeTaken(t *testing.T) {
	dir, bare := t.TempDir(), filepath.Join(t.TempDir(), "bare.git")
	git(t, dir, "init", "--quiet")
	git(t, ".", "clone", "--quiet", "--bare", repository(t), bare)
	for source, want := range map[string]string{
		bare:                        "only a directory with a work tree has changes: leave dirty out",
		"https://example.org/a.git": "only a directory with a work tree has changes",
		dir:                         "has no commit yet: commit its files",
	} {
		r := try(t, nil)
		r.Source, r.Changes = source, ChangesTaken
		status, text := r.run(t)
		assert.Equal(t, RunnerFailed, status)
		assert.Contains(t, text, want)
	}
}
