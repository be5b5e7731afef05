package worktree

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const change = "diff --git a/file b/file\nindex 1..2 100644\n--- a/file\n+++ b/file\n@@ -1 +1 @@\n-one\n+two\n"

func added(name, mode, text string) string {
	return fmt.Sprintf("diff --git a/%[1]s b/%[1]s\nnew file mode %[2]s\n--- /dev/null\n+++ b/%[1]s\n@@ -0,0 +1 @@\n+%[3]s\n", name, mode, text)
}

func link(name, target string) string {
	return added(name, "120000", target) + "\\ No newline at end of file\n"
}

// attacks are patches that a session may write to harm its caller.
var attacks = map[string]string{
	"a hook":               added(".git/hooks/post-checkout", "100755", "touch ran"),
	"a hook in capitals":   added(".GIT/hooks/post-checkout", "100755", "touch ran"),
	"settings":             added("sub/.git/config", "100644", "x"),
	"above":                added("../outside", "100644", "x"),
	"above, later":         added("a/../../outside", "100644", "x"),
	"absolute":             added("/tmp/outside", "100644", "x"),
	"a link out":           link("out", "/tmp"),
	"a link up":            link("out", "../.."),
	"a link to git":        link("out", ".git"),
	"through a link":       link("dir", "inside") + added("dir/x", "100644", "x"),
	"through a known link": added("known/x", "100644", "x"),
	"a moved link":         "diff --git a/a/up b/up\nsimilarity index 100%\nrename from a/up\nrename to up\n",
	"a linked .gitmodules": link(".gitmodules", "inside"),
	"a submodule":          "diff --git a/sub b/sub\nnew file mode 160000\nindex 0..1\n--- /dev/null\n+++ b/sub\n@@ -0,0 +1 @@\n+Subproject commit 1\n",
	"half of it":           change + added("file", "100644", "again"),
	"another file":         change + "diff --git a/none b/none\nindex 1..2 100644\n--- a/none\n+++ b/none\n@@ -1 +1 @@\n-one\n+two\n",
}

func victim(t *testing.T) repository {
	t.Helper()
	r := newRepository(t)
	r.put("file", "one\n")
	r.put("inside/file", "x\n")
	require.NoError(t, os.Symlink("inside", filepath.Join(r.Top, "known")))
	require.NoError(t, os.Mkdir(filepath.Join(r.Top, "a"), 0o755))
	require.NoError(t, os.Symlink("../inside", filepath.Join(r.Top, "a", "up")))
	r.commit()
	return r
}

func TestApply(t *testing.T) {
	r := victim(t)
	index, err := os.ReadFile(filepath.Join(r.Top, ".git", "index"))
	require.NoError(t, err)
	binary := "diff --git a/bin b/bin\nnew file mode 100755\nindex 0000000000000000000000000000000000000000..f76dd238ade08917e6712764a16a22005a50573d\n" +
		"GIT binary patch\nliteral 1\nIcmZPo000310RR91\n\nliteral 0\nHcmV?d00001\n\n"
	files, already, err := r.Apply(t.Context(), []byte(change+added(".gitmodules", "100644", "[submodule]")+binary))
	require.NoError(t, err)
	assert.Equal(t, []any{3, false}, []any{files, already})
	now, err := os.ReadFile(filepath.Join(r.Top, ".git", "index"))
	require.NoError(t, err)
	assert.Equal(t, index, now)
	assert.Equal(t, "M file\n?? .gitmodules\n?? bin", r.run("status", "--porcelain"))
	bare := Tree{filepath.Join(t.TempDir(), "bare.git")}
	r.run("clone", "--quiet", "--bare", r.Top, bare.Top)
	require.ErrorContains(t, bare.CheckApply(t.Context()), "it has no work tree: name a branch with --branch")
	repository{bare, t}.run("config", "user.email", "alice@example.org")
	repository{bare, t}.run("config", "user.name", "alice")
	require.NoError(t, bare.Branch(t.Context(), "fix", r.run("rev-parse", "HEAD"), []Commit{{Message: "x", Patch: []byte(change)}}))
	_, already, err = r.Apply(t.Context(), []byte(change))
	require.NoError(t, err)
	assert.True(t, already)
}

func TestApplyOfAttacks(t *testing.T) {
	r := victim(t)
	before, base := r.state(), r.run("rev-parse", "HEAD")
	for name, text := range attacks {
		_, _, err := r.Apply(t.Context(), []byte(text))
		require.Error(t, err, name)
		err = r.Branch(t.Context(), "attack", base, []Commit{{Message: "x", Patch: []byte(text)}})
		require.Error(t, err, name)
	}
	assert.Equal(t, before, r.state())
	assert.NoFileExists(t, filepath.Join(filepath.Dir(r.Top), "outside"))

	// It would be a link in a commit, too; git writes nothing through one.
	hidden := "diff --git a/known b/known\nindex 1..2\n--- a/known\n+++ b/known\n@@ -1 +1 @@\n-inside\n\\ No newline at end of file\n" +
		"+/etc\n\\ No newline at end of file\n"
	_, _, err := r.Apply(t.Context(), []byte(hidden))
	require.ErrorContains(t, err, "it is a symbolic link, and the patch does not say so")
}

func TestBranch(t *testing.T) {
	r := victim(t)
	base := r.run("rev-parse", "HEAD")
	r.put("file", "mine\n")
	r.run("add", "file")
	before := r.state()
	require.NoError(t, r.Branch(t.Context(), "fix/it", base, []Commit{
		{Message: "first\n", Patch: []byte(change)}, {Message: "empty\n"},
		{Message: "second\n\nmore\n", Patch: []byte(added("new", "100755", "x"))},
	}))
	assert.Equal(t, "alice <alice@example.org> second\nalice <alice@example.org> first\nalice <alice@example.org> commit",
		r.run("log", "--format=%an <%ae> %s", "fix/it"))
	assert.Equal(t, base, r.run("rev-parse", "fix/it~2"))
	assert.Equal(t, "two", r.run("show", "fix/it:file"))
	assert.Contains(t, r.run("ls-tree", "fix/it", "new"), "100755")
	index, rest, _ := strings.Cut(before, r.Top)
	nowIndex, now, _ := strings.Cut(r.state(), r.Top)
	assert.Equal(t, index, nowIndex)
	assert.Equal(t, rest[strings.LastIndex(rest, "file"):], now[strings.LastIndex(now, "file"):], "the work tree")

	for name, want := range map[string]string{
		"fix/it": "there is a branch fix/it: name another one, or remove it (git branch -D fix/it)",
		"fix":    "there is a branch fix", "-x": "no name of a branch", "a..b": "no name of a branch", "": "no name of a branch",
	} {
		require.ErrorContains(t, r.Branch(t.Context(), name, base, nil), want)
	}
	require.ErrorContains(t, r.Branch(t.Context(), "x", strings.Repeat("1", 40), nil), "the repository lacks the commit")
	wrong := []Commit{{Patch: []byte(change), Tree: base}}
	require.ErrorContains(t, r.Branch(t.Context(), "x", base, wrong), "the session shows other changes")
	assert.Empty(t, r.run("branch", "--list", "x"))
	r.run("config", "--unset", "user.name")
	r.run("config", "--unset", "user.email")
	r.run("config", "user.useConfigOnly", "true")
	require.ErrorContains(t, r.CheckBranch(t.Context(), "x"), "git does not know who you are")
}

// Hooks of the repository do not run when a branch is made, and settings about spaces do not change a patch.
func TestBringingRunsNoHook(t *testing.T) {
	r := victim(t)
	ran := filepath.Join(t.TempDir(), "ran")
	for _, hook := range []string{"reference-transaction", "pre-commit", "commit-msg", "post-commit", "post-index-change"} {
		require.NoError(t, os.MkdirAll(filepath.Join(r.Top, ".git", "hooks"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(r.Top, ".git", "hooks", hook), []byte("#!/bin/sh\ntouch "+ran+"\n"), 0o755))
	}
	r.put("spaces", "a\n")
	require.NoError(t, exec.Command("git", "-C", r.Top, "-c", "core.hooksPath=/dev/null", "add", "spaces").Run())
	for name, value := range map[string]string{"apply.whitespace": "fix", "core.whitespace": "trailing-space", "commit.gpgSign": "true"} {
		require.NoError(t, exec.Command("git", "-C", r.Top, "config", name, value).Run())
	}
	base := r.run("rev-parse", "HEAD")
	text := strings.ReplaceAll(change, "+two", "+two  ")
	require.NoError(t, r.Branch(t.Context(), "x", base, []Commit{{Message: "x", Patch: []byte(text)}}))
	_, _, err := r.Apply(t.Context(), []byte(text))
	require.NoError(t, err)
	content, err := os.ReadFile(filepath.Join(r.Top, "file"))
	require.NoError(t, err)
	assert.Equal(t, "two  \n", string(content))
	assert.NoFileExists(t, ran)
}
