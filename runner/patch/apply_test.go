package patch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A tree is a repository with one commit, in a directory of its own.
type tree struct {
	t    testing.TB
	dir  string
	root *os.Root
}

// Run is Git.
func (r tree) Run(ctx context.Context, stdin []byte, args ...string) (Output, error) {
	var out Output
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = r.dir, bytes.NewReader(stdin), &stdout, &stderr
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=" + r.dir, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com"}
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		out.Status, err = exit.ExitCode(), nil
	}
	out.Stdout, out.Stderr = stdout.Bytes(), stderr.Bytes()
	return out, err
}

func (r tree) git(args ...string) string {
	r.t.Helper()
	out, err := r.Run(context.Background(), nil, args...)
	require.NoError(r.t, err)
	require.Zero(r.t, out.Status, "%v: %s", args, out.Stderr)
	return string(out.Stdout)
}

func (r tree) write(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	require.NoError(r.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(r.t, os.WriteFile(path, []byte(text), 0o644)) //nolint:gosec // git's mode
}

func (r tree) read(name string) string {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, name))
	require.NoError(r.t, err)
	return string(text)
}

func (r tree) link(target, name string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	require.NoError(r.t, os.MkdirAll(filepath.Dir(path), 0o755))
	_ = os.Remove(path)
	require.NoError(r.t, os.Symlink(target, path))
}

func (r tree) commit() {
	r.t.Helper()
	r.git("add", "-A")
	r.git("commit", "-qm", "change", "--allow-empty")
}

// changed returns the patch that makes the change, with the tree as it was.
func (r tree) changed(change func(), options ...string) []byte {
	r.t.Helper()
	change()
	r.git("add", "-A")
	text := r.git(append([]string{"diff", "--cached"}, options...)...)
	r.git("reset", "-q", "--hard")
	return []byte(text)
}

const lines = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n17\n18\n19\n20\n"

func newTree(t testing.TB) tree {
	t.Helper()
	r := tree{t: t, dir: t.TempDir()}
	r.git("init", "-q")
	r.write("numbers", lines)
	r.write("src/main.py", "print(1)\n")
	r.write("a b/ü\t\"x", "odd\n")
	r.write("empty", "")
	r.link("../numbers", "src/link")
	r.link("../../numbers", "deep/er/link")
	r.commit()
	var err error
	r.root, err = os.OpenRoot(r.dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.root.Close() })
	return r
}

func (r tree) apply(text []byte) (Result, error) {
	r.t.Helper()
	p, err := Parse(text)
	if err != nil {
		return "", err
	}
	return p.Apply(r.t.Context(), r, r.root)
}

// What git writes is applied, and noticed the second time; a mode is set twice.
func TestPatchesOfGit(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(r tree)
		options []string
		again   Result // empty: AppliedAlready
	}{
		"a line":          {change: func(r tree) { r.write("src/main.py", "print(2)\n") }},
		"two hunks":       {change: func(r tree) { r.write("numbers", "0\n"+lines+"21\n") }},
		"text after @@":   {change: func(r tree) { r.write("numbers", strings.Replace(lines, "15\n", "--- a/x\n", 1)) }},
		"no newline":      {change: func(r tree) { r.write("numbers", strings.TrimSuffix(lines, "\n")) }},
		"no line":         {change: func(r tree) { r.write("numbers", "") }},
		"a new file":      {change: func(r tree) { r.write("new/file", "x\n") }},
		"an empty file":   {change: func(r tree) { r.write("new", "") }},
		"carriage return": {change: func(r tree) { r.write("new", "a\r\nb\r\n") }},
		"two removed": {change: func(r tree) {
			require.NoError(r.t, errors.Join(os.Remove(filepath.Join(r.dir, "numbers")), os.Remove(filepath.Join(r.dir, "empty"))))
		}},
		"a mode":            {change: func(r tree) { require.NoError(r.t, os.Chmod(filepath.Join(r.dir, "numbers"), 0o755)) }, again: Applied}, //nolint:gosec // git's mode
		"an odd name":       {change: func(r tree) { r.write("a b/ü\t\"x", "other\n") }},
		"a rename":          {change: func(r tree) { r.git("mv", "numbers", "src/renamed") }},
		"a rename, changed": {change: func(r tree) { r.git("mv", "numbers", "n"); r.write("n", lines+"21\n") }},
		"an odd rename":     {change: func(r tree) { r.git("mv", "a b/ü\t\"x", "a b/ö") }},
		"a new link":        {change: func(r tree) { r.link("../../src/main.py", "x/y/link") }},
		"a link's target":   {change: func(r tree) { r.link("main.py", "src/link") }},
		"a link moved":      {change: func(r tree) { r.git("mv", "src/link", "deep/link") }},
		"a link for a file": {change: func(r tree) { r.link("src", "numbers") }},
		"a file for a link": {change: func(r tree) {
			require.NoError(r.t, os.Remove(filepath.Join(r.dir, "src/link")))
			r.write("src/link", "x\n")
		}},
		"a binary file":     {change: func(r tree) { r.write("bin\n\xff", "\x00\x01\xff") }, options: []string{"--binary"}},
		"large binary file": {change: func(r tree) { r.write("bin", strings.Repeat("\x00\x01\xff", 10_000)) }, options: []string{"--binary"}},
		"text to binary":    {change: func(r tree) { r.write("src/main.py", "\x00") }, options: []string{"--binary"}},
		"no prefix lines":   {change: func(r tree) { r.write("numbers", lines+"x\n") }, options: []string{"--src-prefix=i/", "--dst-prefix=w/"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTree(t)
			text := r.changed(func() { c.change(r) }, c.options...)
			result, err := r.apply(text)
			require.NoError(t, err, "%s", text)
			assert.Equal(t, Applied, result)
			r.git("add", "-A")
			assert.Equal(t, string(text), r.git(append([]string{"diff", "--cached"}, c.options...)...))

			result, err = r.apply(text)
			require.NoError(t, err)
			assert.Equal(t, cmp.Or(c.again, AppliedAlready), result)
		})
	}
}

func TestACopy(t *testing.T) {
	r := newTree(t)
	result, err := r.apply(r.changed(func() { r.write("copy", lines); r.write("numbers", lines+"x\n") }, "-C"))
	require.NoError(t, err)
	assert.Equal(t, Applied, result)
	assert.Equal(t, lines, r.read("copy"))
}

func TestPatchesOfOthers(t *testing.T) {
	for name, text := range map[string]string{
		"diff -u":   "--- a/src/main.py\t2026-01-01 00:00:00.000000000 +0000\n+++ b/src/main.py\t2026-01-01 00:00:00\n@@ -1 +1 @@\n-print(1)\n+print(2)\n",
		"diff -ru":  "diff -ru old/src/main.py new/src/main.py\n--- old/src/main.py\n+++ new/src/main.py\n@@ -1 +1 @@\n-print(1)\n+print(2)\n",
		"of a mail": "From: a\nSubject: b\n\n---\n src/main.py | 2 +-\n\ndiff --git a/src/main.py b/src/main.py\n--- a/src/main.py\n+++ b/src/main.py\n@@ -1 +1 @@\n-print(1)\n+print(2)\n-- \n2.39.5\n\n",
		"a series":  "--- a/src/main.py\n+++ b/src/main.py\n@@ -1 +1 @@\n-print(1)\n+print(3)\n--- a/src/main.py\n+++ b/src/main.py\n@@ -1 +1 @@\n-print(3)\n+print(2)\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := newTree(t)
			result, err := r.apply([]byte(text))
			require.NoError(t, err)
			assert.Equal(t, Applied, result)
			assert.Equal(t, "print(2)\n", r.read("src/main.py"))
		})
	}
	t.Run("new and removed files", func(t *testing.T) {
		r := newTree(t)
		result, err := r.apply([]byte("--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+x\n--- a/src/main.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-print(1)\n"))
		require.NoError(t, err)
		assert.Equal(t, Applied, result)
		assert.Equal(t, "x\n", r.read("new"))
		assert.NoFileExists(t, filepath.Join(r.dir, "src/main.py"))
	})
}

// The refusal names the hunk; nothing is applied, not even what fits.
func TestPatchThatDoesNotApply(t *testing.T) {
	r := newTree(t)
	text := r.changed(func() { r.write("numbers", "0\n"+lines+"21\n"); r.write("src/main.py", "print(2)\n") })
	r.write("numbers", strings.Replace(lines, "19\n", "nineteen\n", 1))
	_, err := r.apply(text)
	assert.EqualError(t, err, `line 10 of the patch, file "numbers", hunk "@@ -18,3 +19,4 @@": `+
		`the file has other lines around line 18 than the patch expects: make the patch against the commit that it is applied to`)
	assert.Equal(t, "print(1)\n", r.read("src/main.py"))

	_, err = r.apply([]byte("--- a/none\n+++ b/none\n@@ -1 +1 @@\n-a\n+b\n"))
	assert.EqualError(t, err, `line 1 of the patch, file "none": none: No such file or directory: `+
		`make the patch against the commit that it is applied to`)
	_, err = r.apply([]byte("--- /dev/null\n+++ b/numbers\n@@ -0,0 +1 @@\n+b\n"))
	assert.EqualError(t, err, `line 1 of the patch, file "numbers": numbers: already exists in working directory: `+
		`make the patch against the commit that it is applied to`)
}

// Patches that change what the text alone does not show.
func TestLinksOfTheTree(t *testing.T) {
	const retarget = "@@ -1 +1 @@\n-../numbers\n\\ No newline at end of file\n+/etc/passwd\n\\ No newline at end of file\n"
	for name, text := range map[string]string{
		"a new target without a mode": "--- a/src/link\n+++ b/src/link\n" + retarget,
		"a link that was made before": "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+../numbers\n\\ No newline at end of file\n",
		"a move that leaves the tree": "diff --git a/deep/er/link b/link\nsimilarity index 100%\nrename from deep/er/link\nrename to link\n",
		"a copy that leaves the tree": "diff --git a/deep/er/link b/link\nsimilarity index 100%\ncopy from deep/er/link\ncopy to link\n",
		"made, then changed":          "diff --git a/src/l b/src/l\nnew file mode 120000\n--- /dev/null\n+++ b/src/l\n@@ -0,0 +1 @@\n+../numbers\n\\ No newline at end of file\n--- a/src/l\n+++ b/src/l\n" + retarget,
		"moved, then changed":         "diff --git a/src/link b/src/l\nsimilarity index 100%\nrename from src/link\nrename to src/l\ntext\n--- a/src/l\n+++ b/src/l\n" + retarget,
	} {
		t.Run(name, func(t *testing.T) {
			r := newTree(t)
			before := r.git("status", "--porcelain")
			_, err := r.apply([]byte(text))
			var refusal *Error
			require.ErrorAs(t, err, &refusal)
			assert.Equal(t, LinkLeaves, refusal.Reason, err)
			assert.Equal(t, before, r.git("status", "--porcelain"))
		})
	}
}

// Whatever is there, no patch goes through a link.
func TestPathBeyondALink(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, path string){
		"nothing":            func(*testing.T, string) {},
		"a file":             func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, []byte("x\n"), 0o600)) },
		"an empty directory": func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) },
	} {
		for _, where := range []string{"outside", "inside"} {
			t.Run(name+" "+where, func(t *testing.T) {
				r := newTree(t)
				target := map[string]string{"outside": t.TempDir(), "inside": filepath.Join(r.dir, "src")}[where]
				prepare(t, filepath.Join(target, "x"))
				r.link(target, "out")
				r.commit()
				for _, text := range []string{
					"--- /dev/null\n+++ b/out/x\n@@ -0,0 +1 @@\n+x\n",
					"--- a/out/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
					"--- a/out/x\n+++ b/out/x\n@@ -1 +1,2 @@\n x\n+x\n",
				} {
					_, err := r.apply([]byte(text))
					assert.EqualError(t, err, `line 1 of the patch, file "out/x": it is beyond a symbolic link, "out": `+
						`make the patch against the commit that it is applied to`)
				}
			})
		}
	}
}

// A file may become a directory, and back. A directory with other files stays.
func TestDirectories(t *testing.T) {
	const refused = `line 1 of the patch, file "src": it is a directory in the tree: ` +
		`make the patch against the commit that it is applied to`
	for _, text := range []string{"--- /dev/null\n+++ b/src\n@@ -0,0 +1 @@\n+x\n", "--- a/src\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"} {
		r := newTree(t)
		_, err := r.apply([]byte(text))
		assert.EqualError(t, err, refused)
		assert.Equal(t, "print(1)\n", r.read("src/main.py"))
	}

	r := newTree(t)
	r.write("kind/a", "a\n")
	r.commit()
	toFile := r.changed(func() { require.NoError(t, os.RemoveAll(filepath.Join(r.dir, "kind"))); r.write("kind", "x\n") })
	for _, want := range []Result{Applied, AppliedAlready} {
		result, err := r.apply(toFile)
		require.NoError(t, err)
		assert.Equal(t, want, result)
		assert.Equal(t, "x\n", r.read("kind"))
	}
	r.commit()
	toDirectory := r.changed(func() { require.NoError(t, os.Remove(filepath.Join(r.dir, "kind"))); r.write("kind/b", "b\n") })
	for _, want := range []Result{Applied, AppliedAlready} {
		result, err := r.apply(toDirectory)
		require.NoError(t, err)
		assert.Equal(t, want, result)
		assert.Equal(t, "b\n", r.read("kind/b"))
	}

	// An empty directory is no file.
	require.NoError(t, os.Remove(filepath.Join(r.dir, "kind/b")))
	_, err := r.apply(toFile)
	assert.ErrorContains(t, err, `file "kind/a": kind/a: No such file or directory`)
	_, err = r.apply([]byte("--- a/kind\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"))
	assert.ErrorContains(t, err, `file "kind": it is a directory in the tree`)

	// A link may become a directory.
	r.link("src", "kind")
	r.commit()
	fromLink := r.changed(func() { require.NoError(t, os.Remove(filepath.Join(r.dir, "kind"))); r.write("kind/c", "c\n") })
	result, err := r.apply(fromLink)
	require.NoError(t, err)
	assert.Equal(t, Applied, result)
	assert.Equal(t, "c\n", r.read("kind/c"))
}

// Where git and Parse read a patch differently, the patch is refused.
func TestGitFindsOtherFiles(t *testing.T) {
	r := newTree(t)
	p, err := Parse([]byte("--- a/src/main.py\n+++ b/src/main.py\n@@ -1 +1 @@\n-print(1)\n+print(2)\n"))
	require.NoError(t, err)
	p.Files[0].New = "other"
	_, err = p.Apply(t.Context(), r, r.root)
	assert.EqualError(t, err, `the patch: git finds other files in it: ["src/main.py"]: make the patch with `+"`git diff`")
}

func TestGitThatDoesNotStart(t *testing.T) {
	r := newTree(t)
	p, err := Parse([]byte("--- a/src/main.py\n+++ b/src/main.py\n@@ -1 +1 @@\n-print(1)\n+print(2)\n"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = p.Apply(ctx, r, r.root)
	assert.ErrorContains(t, err, "cannot run git apply: ")
	assert.ErrorIs(t, err, context.Canceled)
}
