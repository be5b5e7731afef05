package sessions

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/apitest"
	"codex-proxy/runner/api/wire"
)

// git runs git in dir, and returns what it prints.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b", "-c",
		"init.defaultBranch=main"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

// repository is one with two commits on main and a branch side of the first.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, "init", "--quiet")
	git(t, dir, "commit", "--quiet", "--allow-empty", "-m", "one")
	git(t, dir, "branch", "side")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o644))
	git(t, dir, "add", ".")
	git(t, dir, "commit", "--quiet", "-m", "two")
	return dir
}

func TestLocalRepository(t *testing.T) {
	var asked wire.NewSession
	r := try(t, func(c *apitest.Command) {
		asked = c.Of
		c.End(succeeded)
	})
	run := func(source, ref string) {
		t.Helper()
		r.Source, r.New, r.Command.Directory = source, wire.NewSession{Ref: ref}, ""
		status, text := r.run(t)
		require.Zero(t, status, text)
	}
	dir := repository(t)
	run(dir, "")
	main, key := git(t, dir, "rev-parse", "main"), asked.Repository
	assert.Equal(t, main, asked.Ref)
	bundle := filepath.Join(t.TempDir(), "bundle")
	require.NoError(t, os.WriteFile(bundle, r.daemon.Bundle(key), 0o600))
	copied := filepath.Join(t.TempDir(), "copy")
	git(t, ".", "clone", "--quiet", bundle, copied)
	assert.FileExists(t, filepath.Join(copied, "file"))

	sent := r.daemon.Bundle(key)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(dir, link))
	run(link, "main")
	assert.Equal(t, sent, r.daemon.Bundle(key), "the daemon has the commit")
	run(dir, "side")
	assert.Equal(t, git(t, dir, "rev-parse", "side"), asked.Ref)
	assert.Equal(t, sent, r.daemon.Bundle(key), "the daemon has its history")

	linked := filepath.Join(t.TempDir(), "linked")
	git(t, dir, "worktree", "add", "--quiet", "-b", "third", linked)
	git(t, linked, "commit", "--quiet", "--allow-empty", "-m", "three")
	run(linked, "")
	assert.Equal(t, git(t, linked, "rev-parse", "HEAD"), asked.Ref)

	git(t, dir, "tag", "v1")
	before := r.daemon.Bundle(key)
	run(dir, "")
	tagged := r.daemon.Bundle(key)
	assert.Contains(t, string(tagged), main+" refs/tags/v1\n", "a new tag of a commit that the daemon has")
	assert.NotEqual(t, before, tagged)
	run(dir, "")
	assert.Equal(t, tagged, r.daemon.Bundle(key))

	below := filepath.Join(dir, "a", "b")
	require.NoError(t, os.MkdirAll(below, 0o755))
	run(below, "")
	assert.Equal(t, []string{key, "a/b"}, []string{asked.Repository, asked.Commands[0].Directory}, "it begins where the caller is")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "a")))

	shallow := filepath.Join(t.TempDir(), "shallow")
	git(t, ".", "clone", "--quiet", "--depth", "1", "file://"+dir, shallow)
	run(shallow, "")
	assert.Equal(t, main, asked.Ref)
	assert.Contains(t, string(r.daemon.Bundle(asked.Repository)), main+" refs/codex-runner/shallow/"+main+"\n")

	bare := filepath.Join(t.TempDir(), "bare.git")
	git(t, ".", "clone", "--quiet", "--bare", dir, bare)
	run(bare, "")
	assert.Equal(t, main, asked.Ref)

	r.stderr.Reset()
	run(dir, "")
	assert.Empty(t, r.stderr.String())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("y"), 0o644))
	run(dir, "main")
	assert.Empty(t, r.stderr.String(), "the ref was named")
	run(dir, "")
	assert.Contains(t, r.stderr.String(), "has changes that are not committed, and the command runs without them")

	require.NoError(t, os.WriteFile(filepath.Join(dir, ".gitattributes"), []byte("*.bin filter=lfs\n"), 0o644))
	git(t, dir, "add", ".")
	git(t, dir, "commit", "--quiet", "-m", "lfs")
	r.stderr.Reset()
	run(dir, "main")
	assert.Contains(t, r.stderr.String(), "has files in Git LFS, and the command gets their pointers")

	run("https://example.org/a.git", "main")
	assert.Equal(t, "https://example.org/a.git", asked.Repository)
	run("git@example.org:a.git", "")
	assert.Equal(t, "git@example.org:a.git", asked.Repository)
}

func TestBadRepositories(t *testing.T) {
	dir, partial := repository(t), filepath.Join(t.TempDir(), "partial")
	git(t, dir, "config", "uploadpack.allowFilter", "true")
	git(t, ".", "clone", "--quiet", "--filter=blob:none", "--no-checkout", "file://"+dir, partial)
	for want, given := range map[string][2]string{
		`has no branch, tag or commit "mian": do you mean main?`: {dir, "mian"},
		"is no git repository that this user can read":           {t.TempDir(), ""},
		"git fetch --refetch --no-filter":                        {partial, ""},
	} {
		r := try(t, nil)
		r.Source, r.New.Ref = given[0], given[1]
		status, text := r.run(t)
		assert.Equal(t, RunnerFailed, status)
		assert.Contains(t, text, want)
	}
}
