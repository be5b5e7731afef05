package workspace

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A patch of all kinds of changes makes a tree like the one of the session.
func TestDiff(t *testing.T) {
	o := newOrigin(t)
	base := o.commit(map[string]string{
		"same": "1\n", "changed": "1\n", "gone": "1\n", "mode": "1\n", "binary": "\x00\x01\xff", "link": "-> same", "dir/file": "1\n",
		"crlf": "1\r\n", ".gitattributes": "*.txt text eol=crlf\n", "a.txt": "one\r\n", ".gitignore": "*.o\n",
		"made/__pycache__/known": "1\n",
	})
	c := slot(t, Source{Mirror: o.mirror(), URL: o.url(), Commit: base})
	c.must(t)
	in := func(name string) string { return filepath.Join(c.Tree, name) }
	for name, text := range map[string]string{
		"changed": "2", "binary": "\x00\x02\xff", "new\nline\xff \"": "new\n", "-dash": "new", "x.o": "ignored", "dir": "a file now",
		".venv/bin/python": "set-up", "node_modules/x/index.js": "set-up", "part/__pycache__/x.pyc": "", "made/__pycache__/known": "2",
		"latin1": "\xe9\n", "empty": "", "part/.eslintcache": "set-up", "part/.stylelintcache": "set-up",
	} {
		require.NoError(t, os.RemoveAll(in(name)))
		if name == "dir" {
			require.NoError(t, os.RemoveAll(in("dir")))
		}
		put(t, in(name), text)
	}
	require.NoError(t, os.Remove(in("gone")))
	require.NoError(t, os.Remove(in("link")))
	require.NoError(t, os.Symlink("dir", in("link")))
	require.NoError(t, os.Chmod(in("mode"), 0o755))
	worker := origin{t, c.Tree}
	worker.git("clone", "--quiet", o.dir, in("nested"))
	worker.git("add", "changed") // the index of the session means nothing
	worker.git("commit", "--quiet", "-m", "neither does a commit")
	worker.git("config", "diff.external", "false")
	worker.git("config", "core.excludesFile", in("changed"))
	d := Diff{Source: c.Source, Tree: c.Tree}
	var text bytes.Buffer
	all, err := d.Write(t.Context(), false, &text)
	require.NoError(t, err)
	assert.Equal(t, []any{[]string{"nested/"}, int64(0)}, []any{all.Nested, all.Begin})
	assert.NotContains(t, text.String(), "set-up")
	assert.NotContains(t, text.String(), "x.o")

	applied := slot(t, c.Source)
	applied.must(t)
	patch := filepath.Join(t.TempDir(), "patch")
	put(t, patch, text.String())
	origin{t, applied.Tree}.git("apply", "--whitespace=nowarn", patch)
	for _, left := range []string{".venv", "node_modules", "part", "x.o", "nested"} {
		require.NoError(t, os.RemoveAll(in(left)))
	}
	assert.Equal(t, state(t, c.Tree), state(t, applied.Tree))

	require.NoError(t, os.RemoveAll(in(".git")))
	var again bytes.Buffer
	_, err = d.Write(t.Context(), false, &again)
	require.NoError(t, err)
	assert.Equal(t, text.String(), again.String(), "it needs no repository of the session")
}

// The state in which a session began is the commit with its patch, and that is not the change of a command.
func TestDiffAfterAPatch(t *testing.T) {
	o := newOrigin(t)
	base := o.commit(map[string]string{"file": "1\n", "other": "1\n"})
	put(t, filepath.Join(o.dir, "file"), "2\n")
	patch := []byte(o.git("diff") + "\n")
	c := slot(t, Source{Mirror: o.mirror(), URL: o.url(), Commit: base})
	c.must(t)
	d := Diff{Source: c.Source, Tree: c.Tree, Patch: patch}
	put(t, filepath.Join(c.Tree, "file"), "2\n")
	for _, begin := range []bool{false, true} {
		var text bytes.Buffer
		all, err := d.Write(t.Context(), begin, &text)
		require.NoError(t, err)
		assert.EqualValues(t, text.Len(), all.Begin)
		assert.Equal(t, begin, text.Len() > 0, text.String())
		tree, _, _ := ParseCommit(all.Object)
		assert.Equal(t, o.git("rev-parse", base+"^{tree}"), tree)
	}
	put(t, filepath.Join(c.Tree, "other"), "2\n")
	var text bytes.Buffer
	_, err := d.Write(t.Context(), false, &text)
	require.NoError(t, err)
	assert.Contains(t, text.String(), "a/other")
	assert.NotContains(t, text.String(), "a/file")
	d.Patch = []byte("--- a/file\n+++ b/file\n@@ -1 +1 @@\n-3\n+4\n")
	_, err = d.Write(t.Context(), false, &text)
	require.ErrorContains(t, err, "cannot find the state in which the session began")
}

func TestDiffWithoutARepository(t *testing.T) {
	tree := t.TempDir()
	put(t, filepath.Join(tree, "file"), "1\n")
	var text bytes.Buffer
	all, err := Diff{Tree: tree}.Write(t.Context(), true, &text)
	require.NoError(t, err)
	assert.Equal(t, Differences{}, all)
	assert.Contains(t, text.String(), "--- /dev/null\n+++ b/file\n")
}

// `git lfs pull` changes nothing that a repository has, and other content does.
func TestDiffOfLFS(t *testing.T) {
	pointer := func(text string) string {
		return fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%x\nsize %d\n", sha256.Sum256([]byte(text)), len(text))
	}
	o := newOrigin(t)
	base := o.commit(map[string]string{".gitattributes": "*.bin filter=lfs -text\n", "a.bin": pointer("a"), "b.bin": pointer("b")})
	c := slot(t, Source{Mirror: o.mirror(), URL: o.url(), Commit: base})
	c.must(t)
	put(t, filepath.Join(c.Tree, "a.bin"), "a")
	put(t, filepath.Join(c.Tree, "b.bin"), "changed")
	var text bytes.Buffer
	_, err := Diff{Source: c.Source, Tree: c.Tree}.Write(t.Context(), false, &text)
	require.NoError(t, err)
	assert.NotContains(t, text.String(), "a.bin")
	assert.Contains(t, text.String(), "b.bin")
}

func TestDiffIsBounded(t *testing.T) {
	tree := t.TempDir()
	file, err := os.Create(filepath.Join(tree, "big"))
	require.NoError(t, err)
	require.NoError(t, file.Truncate(maxNewBytes+1))
	require.NoError(t, file.Close())
	_, err = Diff{Tree: tree}.Write(t.Context(), false, &bytes.Buffer{})
	require.ErrorContains(t, err, "more than 268435456: remove what is not part of the change, or name it in .gitignore")
}
