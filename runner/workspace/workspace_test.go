package workspace

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// origin is a repository that tests commit to.
type origin struct {
	t   testing.TB
	dir string
}

func newOrigin(t testing.TB, args ...string) origin {
	o := origin{t, t.TempDir()}
	o.git(append([]string{"init", "--quiet", "--initial-branch=main"}, args...)...)
	return o
}

// git runs git as a person at the repository does.
func (o origin) git(args ...string) string {
	o.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "protocol.file.allow=always",
		"-c", "commit.gpgsign=false"}, args...)...)
	cmd.Dir = o.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	require.NoError(o.t, err, "git %v: %s", args, out)
	return strings.TrimSpace(string(out))
}

// commit commits the files, whose content is text, "-> TARGET" for a link or "#!…" for a program, and returns the commit.
func (o origin) commit(files map[string]string) string {
	o.t.Helper()
	for name, content := range files {
		put(o.t, filepath.Join(o.dir, name), content)
	}
	o.git("add", "--all", "--force")
	o.git("commit", "--quiet", "--allow-empty", "-m", "change")
	return o.git("rev-parse", "HEAD")
}

func put(t testing.TB, file, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	if target, ok := strings.CutPrefix(content, "-> "); ok {
		require.NoError(t, os.Symlink(target, file))
		return
	}
	mode := fs.FileMode(0o644)
	if strings.HasPrefix(content, "#!") {
		mode = 0o755
	}
	require.NoError(t, os.WriteFile(file, []byte(content), mode))
}

func (o origin) url() string { return "file://" + o.dir }

// mirror fetches the repository.
func (o origin) mirror() string {
	o.t.Helper()
	m := Mirror{Dir: filepath.Join(o.t.TempDir(), "mirror.git"), URL: o.url(), Time: time.Minute, Bytes: 1 << 30}
	require.NoError(o.t, m.Fetch(o.t.Context()))
	return m.Dir
}

func noMirrors(string) (string, error) { return "", ErrNoMirror }

// slot returns a checkout of an empty tree.
func slot(t testing.TB, s Source) Checkout {
	t.Helper()
	dir := t.TempDir()
	f, err := os.OpenFile(filepath.Join(dir, "record"), os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	tree := filepath.Join(dir, "tree")
	require.NoError(t, os.Mkdir(tree, 0o755))
	return Checkout{Source: s, Tree: tree, Record: f, Mirrors: noMirrors}
}

func (c Checkout) must(t testing.TB) Report {
	t.Helper()
	r, err := c.Run(context.Background())
	require.NoError(t, err)
	return r
}

// state describes all of a tree but the repositories in it: kinds, permissions and contents.
func state(t testing.TB, tree string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(tree, func(p string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		at, err := filepath.Rel(tree, p)
		require.NoError(t, err)
		if filepath.Base(p) == ".git" {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := e.Info()
		require.NoError(t, err)
		what := ""
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(p)
			require.NoError(t, err)
			what = string(data)
		case info.Mode()&fs.ModeSymlink != 0:
			what, err = os.Readlink(p)
			require.NoError(t, err)
		}
		all[at] = fmt.Sprint(info.Mode(), " ", what)
		return nil
	}))
	return all
}

// sameAsClone requires that the tree is what a checkout of an empty slot is, and that git agrees.
func (c Checkout) sameAsClone(t testing.TB) {
	t.Helper()
	fresh := slot(t, c.Source)
	fresh.Mirrors = c.Mirrors
	fresh.must(t)
	want, got := state(t, fresh.Tree), state(t, c.Tree)
	require.True(t, maps.Equal(want, got), "want %v\ngot  %v", want, got)
	o := origin{t, c.Tree}
	require.Empty(t, o.git("status", "--porcelain", "--ignored"))
	require.Equal(t, c.Commit, o.git("rev-parse", "HEAD"))
	o.git("fsck", "--connectivity-only", "--no-dangling")
}
