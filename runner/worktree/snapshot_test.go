package worktree

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/workspace"
)

// repository is a caller's repository, of a test.
type repository struct {
	Tree
	t *testing.T
}

func newRepository(t *testing.T) repository {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", "")
	r := repository{Tree{t.TempDir()}, t}
	r.run("init", "--quiet", "--initial-branch=main")
	r.run("config", "user.name", "alice")
	r.run("config", "user.email", "alice@example.org")
	return r
}

func (r repository) run(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", r.Top}, args...)...)
	out, err := cmd.CombinedOutput()
	require.NoError(r.t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

func (r repository) put(name, text string) {
	r.t.Helper()
	file := filepath.Join(r.Top, name)
	require.NoError(r.t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(r.t, os.WriteFile(file, []byte(text), 0o644))
}

func (r repository) remove(name string) {
	r.t.Helper()
	require.NoError(r.t, os.RemoveAll(filepath.Join(r.Top, name)))
}

func (r repository) commit() string {
	r.t.Helper()
	r.run("add", "--all")
	r.run("commit", "--quiet", "--allow-empty", "--message=commit")
	return r.run("rev-parse", "HEAD")
}

// state is all that a snapshot must not change.
func (r repository) state() string {
	r.t.Helper()
	index, err := os.ReadFile(filepath.Join(r.Top, ".git", "index"))
	require.NoError(r.t, err)
	files, err := exec.Command("find", filepath.Join(r.Top, ".git"), "-printf", "%p %s\n").Output()
	require.NoError(r.t, err)
	status, err := exec.Command("find", r.Top, "-path", "*/.git", "-prune", "-o", "-printf", "%p %m %T@ %s\n").Output()
	require.NoError(r.t, err)
	return string(index) + string(files) + string(status)
}

// listed are the files of a snapshot, each with its mode and its content.
func (r repository) listed(s *Snapshot) map[string]string {
	r.t.Helper()
	all := map[string]string{}
	cmd := exec.Command("git", "-C", r.Top, "ls-tree", "-r", "-z", s.Commit)
	cmd.Env = append(os.Environ(), "GIT_ALTERNATE_OBJECT_DIRECTORIES="+s.Objects)
	out, err := cmd.Output()
	require.NoError(r.t, err)
	for record := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		head, name, _ := strings.Cut(record, "\t")
		f := strings.Fields(head)
		text := f[2]
		if f[1] == "blob" {
			cat := exec.Command("git", "-C", r.Top, "cat-file", "blob", f[2])
			cat.Env = cmd.Env
			content, err := cat.Output()
			require.NoError(r.t, err)
			text = string(content)
		}
		all[name] = f[0] + " " + text
	}
	return all
}

func (r repository) snapshot() *Snapshot {
	r.t.Helper()
	s, err := r.Snapshot(r.t.Context())
	require.NoError(r.t, err)
	r.t.Cleanup(s.Close)
	return s
}

func TestSnapshot(t *testing.T) {
	r := newRepository(t)
	for _, name := range []string{"same", "changed", "staged", "both", "gone", "goneStaged", "moved", "mode", "dir/file", "kept"} {
		r.put(name, name)
	}
	r.put(".gitignore", "*.ignored\n")
	base := r.commit()
	assert.Equal(t, &Snapshot{Base: base, Commit: base}, r.snapshot())

	r.put("changed", "1")
	r.put("staged", "2")
	r.put("both", "3")
	r.run("add", "staged", "both")
	r.put("both", "4")
	r.remove("gone")
	r.run("rm", "--quiet", "goneStaged")
	r.run("mv", "moved", "to")
	r.run("rm", "--quiet", "--cached", "kept")
	require.NoError(t, os.Chmod(filepath.Join(r.Top, "mode"), 0o755))
	r.remove("dir")
	require.NoError(t, os.Symlink("same", filepath.Join(r.Top, "dir")))
	r.put("binary", "\x00\xff\n")
	r.put("new\nline\xff", "odd")
	r.put("-dash", "odd")
	r.put(":(top)magic*", "odd")
	r.put("intent", "later")
	r.run("add", "--intent-to-add", "intent")
	r.put("x.ignored", "no")
	before := r.state()
	s := r.snapshot()
	assert.Equal(t, before, r.state(), "the repository is as it was")
	assert.Equal(t, base, s.Base)
	assert.Equal(t, map[string]string{
		".gitignore": "100644 *.ignored\n", "same": "100644 same", "changed": "100644 1", "staged": "100644 2",
		"both": "100644 4", "to": "100644 moved", "mode": "100755 mode", "dir": "120000 same", "kept": "100644 kept",
		"binary": "100644 \x00\xff\n", "new\nline\xff": "100644 odd", "-dash": "100644 odd", ":(top)magic*": "100644 odd",
		"intent": "100644 later",
	}, r.listed(s))
	assert.Equal(t, s.Commit, r.snapshot().Commit, "the same changes are the same commit")
	s.Close()
	assert.NoDirExists(t, s.Objects)
}

func TestSnapshotOfANewRepository(t *testing.T) {
	r := newRepository(t)
	assert.Equal(t, &Snapshot{}, r.snapshot())
	r.put("file", "first")
	s := r.snapshot()
	assert.Empty(t, s.Base)
	assert.Equal(t, map[string]string{"file": "100644 first"}, r.listed(s))
}

// The caller's settings count, as with git add: what is ignored, how lines end, and filters.
func TestSnapshotBySettings(t *testing.T) {
	r := newRepository(t)
	r.put("file", "one\n")
	r.put(".gitattributes", "*.big filter=big\n*.bin diff=shown\n")
	r.run("config", "filter.big.clean", "tr a-z A-Z")
	r.run("config", "filter.big.smudge", "tr A-Z a-z")
	r.put("a.big", "content")
	r.commit()
	r.run("config", "core.autocrlf", "input")
	require.NoError(t, os.MkdirAll(filepath.Join(os.Getenv("HOME"), ".config", "git"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(os.Getenv("HOME"), ".config", "git", "ignore"), []byte("mine\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(r.Top, ".git", "info", "exclude"), []byte("private\n"), 0o600))
	r.put("mine", "")
	r.put("private", "")
	r.put("file", "one\r\n")
	r.put("a.big", "content")
	s := r.snapshot()
	assert.Equal(t, s.Base, s.Commit, "these are no changes")
	assert.Zero(t, s.Changes)
	r.put("b.big", "more")
	r.put("file", "two\r\n")
	files := r.listed(r.snapshot())
	assert.Equal(t, []string{"100644 CONTENT", "100644 MORE", "100644 two\n"},
		[]string{files["a.big"], files["b.big"], files["file"]})
	assert.Len(t, files, 4)
}

// Programs that the caller's git does not need here do not run: hooks, monitors, and programs for diffs.
func TestSnapshotRunsNoHook(t *testing.T) {
	r := newRepository(t)
	ran := filepath.Join(t.TempDir(), "ran")
	program := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\ntouch "+ran+"\n"), 0o755))
	r.put("file", "one")
	r.put(".gitattributes", "* diff=mine\n")
	r.commit()
	for _, hook := range []string{"post-index-change", "reference-transaction", "pre-commit"} {
		require.NoError(t, os.MkdirAll(filepath.Join(r.Top, ".git", "hooks"), 0o755))
		require.NoError(t, os.Symlink(program, filepath.Join(r.Top, ".git", "hooks", hook)))
	}
	for _, name := range []string{"core.fsmonitor", "diff.external", "diff.mine.command", "diff.mine.textconv", "core.pager"} {
		r.run("config", name, program)
	}
	t.Setenv("GIT_EXTERNAL_DIFF", program)
	t.Setenv("GIT_DIR", "/nowhere")
	t.Setenv("GIT_INDEX_FILE", "/nowhere")
	r.put2(t, "file", "two")
	s := r.snapshot()
	assert.NotEqual(t, s.Base, s.Commit)
	assert.NoFileExists(t, ran)
}

// put2 writes a file of a repository whose git the environment misleads.
func (r repository) put2(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(r.Top, name), []byte(text), 0o644))
}

func TestSnapshotsThatAreRefused(t *testing.T) {
	r := newRepository(t)
	r.put("file", "one")
	r.commit()
	r.run("branch", "other")
	r.put("file", "two")
	r.commit()
	r.run("checkout", "--quiet", "other")
	r.put("file", "three")
	r.commit()
	_ = exec.Command("git", "-C", r.Top, "merge", "main").Run()
	_, err := r.Snapshot(t.Context())
	require.ErrorContains(t, err, `git has conflicts in "file"`)
	r.run("merge", "--abort")
	big, err := os.Create(filepath.Join(r.Top, "big"))
	require.NoError(t, err)
	require.NoError(t, big.Truncate(MaxBytes+1))
	require.NoError(t, big.Close())
	_, err = r.Snapshot(t.Context())
	require.ErrorContains(t, err, ".gitignore")
	_, err = Tree{t.TempDir()}.Snapshot(t.Context())
	require.ErrorContains(t, err, "not a git repository")
}

func TestSnapshotWithRepositoriesInside(t *testing.T) {
	r := newRepository(t)
	sub := newRepository(t)
	sub.put("file", "sub")
	sub.commit()
	r.run("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", sub.Top, "sub")
	r.commit()
	inner := repository{Tree{filepath.Join(r.Top, "sub")}, t}
	inner.put("file", "changed")
	r.run("clone", "--quiet", sub.Top, filepath.Join(r.Top, "nested"))
	s := r.snapshot()
	assert.Equal(t, s.Base, s.Commit)
	assert.Equal(t, []any{[]string{"sub"}, []string{"nested/"}}, []any{s.Modules, s.Nested})
	inner.run("config", "user.name", "alice")
	inner.run("config", "user.email", "alice@example.org")
	next := inner.commit()
	s = r.snapshot()
	assert.Empty(t, s.Modules)
	assert.Equal(t, "160000 "+next, r.listed(s)["sub"], "another commit of a submodule is a change")
}

func TestSnapshotOfASparseCheckout(t *testing.T) {
	r := newRepository(t)
	r.put("in/file", "in")
	r.put("out/file", "out")
	r.commit()
	r.run("sparse-checkout", "set", "--cone", "--sparse-index", "in")
	r.put("in/file", "changed")
	r.put("out/new", "new")
	assert.Equal(t, map[string]string{"in/file": "100644 changed", "out/file": "100644 out", "out/new": "100644 new"},
		r.listed(r.snapshot()))
}

// A changed file whose time the index cannot tell from its own is seen, although the index is copied later.
func TestSnapshotOfRacyFiles(t *testing.T) {
	r := newRepository(t)
	for range 4 {
		r.put("file", "one")
		r.commit()
		r.put("file", "two")
		assert.Equal(t, "100644 two", r.listed(r.snapshot())["file"])
	}
}

func TestSnapshotOfALinkedTree(t *testing.T) {
	r := newRepository(t)
	r.put("file", "one")
	base := r.commit()
	linked := repository{Tree{filepath.Join(t.TempDir(), "linked")}, t}
	r.run("worktree", "add", "--quiet", "--detach", linked.Top)
	linked.put("file", "two")
	s := linked.snapshot()
	assert.Equal(t, base, s.Base)
	assert.Equal(t, map[string]string{"file": "100644 two"}, linked.listed(s))
}

func TestForeign(t *testing.T) {
	err := foreign(&workspace.GitError{Stderr: "fatal: detected dubious ownership in repository at '/x'", Err: assert.AnError})
	require.ErrorIs(t, err, ErrForeign)
	require.ErrorIs(t, foreign(assert.AnError), assert.AnError)
}
