package workspace

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCheckoutIsWhatCloneMakes(t *testing.T) {
	o := newOrigin(t)
	o.commit(map[string]string{"a": "1", "run": "#!/bin/sh\n", "d/e/f": "2", "link": "-> d/e", "sp ace\n\"": "3", "big": strings.Repeat("x", 1<<20)})
	o.git("tag", "-a", "-m", "one", "v1")
	o.git("branch", "side")
	head := o.commit(map[string]string{".gitattributes": "*.bat eol=crlf\n*.id ident\n", "w.bat": "x\n", "v.id": "$Id$\n", ".gitignore": "*.o\n"})
	s := slot(t, Source{o.mirror(), o.url(), head})
	r := s.must(t)
	assert.Equal(t, Report{Written: 10}, r)
	s.sameAsClone(t)

	clone := t.TempDir()
	o.git("clone", "--quiet", o.dir, clone)
	assert.Equal(t, state(t, clone), state(t, s.Tree))
	session := origin{t, s.Tree}
	assert.Equal(t, "v1-1", session.git("describe")[:4])
	assert.Equal(t, head, session.git("rev-parse", "origin/main"))
	assert.NotEmpty(t, session.git("log", "-1", "--format=%H", "origin/side"))
	assert.Equal(t, o.url(), session.git("remote", "get-url", "origin"))
	session.commit(map[string]string{"mine": "4"})
}

func TestReuse(t *testing.T) {
	o := newOrigin(t)
	first := o.commit(map[string]string{"a": "1", "b": "1", "d/c": "1", "x/y": "1", "l": "-> a"})
	require.NoError(t, os.RemoveAll(filepath.Join(o.dir, "x")))
	second := o.commit(map[string]string{"b": "2", "x": "a file now", "new/file": "3"})
	s := slot(t, Source{o.mirror(), o.url(), first})
	s.must(t)
	assert.Equal(t, Report{Kept: 5}, s.must(t), "nothing changed")
	s.Commit = second
	assert.Equal(t, Report{Kept: 3, Written: 3, Removed: 2}, s.must(t))
	s.sameAsClone(t)
	s.Commit = first
	assert.Equal(t, Report{Kept: 3, Written: 2, Removed: 3}, s.must(t))
	s.sameAsClone(t)

	other := newOrigin(t)
	s.Source = Source{other.mirror(), other.url(), other.commit(map[string]string{"a": "1", "z": "1"})}
	_, err := s.Run(t.Context())
	require.ErrorIs(t, err, ErrNoCommit, "the mirror is older than the commit")
	s.Mirror = other.mirror()
	assert.Equal(t, 1, s.must(t).Kept, "a file of another repository with the same content")
	s.sameAsClone(t)
}

// The copy of a tree in which a set-up has made files keeps these, and gets another commit.
func TestLeave(t *testing.T) {
	o := newOrigin(t)
	first := o.commit(map[string]string{
		"a": "1", "b": "1", "d/c": "1", "gone/f": "1", "x": "1", ".gitattributes": "*.id ident\n", "v.id": "$Id$\n",
	})
	for _, name := range []string{"gone", "x"} {
		require.NoError(t, os.RemoveAll(filepath.Join(o.dir, name)))
	}
	second := o.commit(map[string]string{"b": "2", "x/y": "1", "made": "of the commit"})
	require.NoError(t, os.Remove(filepath.Join(o.dir, ".gitattributes")))
	third := o.commit(map[string]string{"b": "3"})
	s := slot(t, Source{o.mirror(), o.url(), first})
	s.must(t)
	before, err := os.Stat(filepath.Join(s.Tree, "a"))
	require.NoError(t, err)
	for name, content := range map[string]string{
		"node_modules/m": "m", "d/made": "m", "gone/made": "m", "made": "of the set-up", "d/c": "of the set-up",
	} {
		put(t, filepath.Join(s.Tree, name), content)
	}
	s.Leave, s.Commit = true, second
	assert.Equal(t, Report{Kept: 3, Written: 4, Removed: 5}, s.must(t))
	assert.Equal(t, "?? d/made\n?? gone/\n?? node_modules/", origin{t, s.Tree}.git("status", "--porcelain"))
	info, err := os.Stat(filepath.Join(s.Tree, "a"))
	require.NoError(t, err)
	assert.Equal(t, before.ModTime(), info.ModTime(), "programs that build compare times")

	s.Commit = third
	assert.Zero(t, s.must(t).Kept, "with other attributes")
	assert.Equal(t, "?? d/made\n?? gone/\n?? node_modules/", origin{t, s.Tree}.git("status", "--porcelain"))
}

func TestReuseWithOtherAttributes(t *testing.T) {
	o := newOrigin(t)
	first := o.commit(map[string]string{"w.bat": "x\n", "a": "1"})
	second := o.commit(map[string]string{".gitattributes": "*.bat eol=crlf\n"})
	s := slot(t, Source{o.mirror(), o.url(), first})
	s.must(t)
	s.Commit = second
	assert.Zero(t, s.must(t).Kept)
	s.sameAsClone(t)
	s.Commit = first
	assert.Zero(t, s.must(t).Kept)
	s.sameAsClone(t)
}

func TestSHA256(t *testing.T) {
	o := newOrigin(t, "--object-format=sha256")
	head := o.commit(map[string]string{"a": "1"})
	m := Mirror{Dir: filepath.Join(t.TempDir(), "m"), URL: o.url(), Time: bound, Bytes: 1 << 30}
	require.NoError(t, m.Fetch(t.Context()))
	s := slot(t, Source{m.Dir, o.url(), head})
	s.must(t)
	assert.Equal(t, Report{Kept: 1}, s.must(t))
	s.sameAsClone(t)
}

func TestRecovery(t *testing.T) {
	o := newOrigin(t)
	head := o.commit(map[string]string{"a": "1", "d/b": "2"})
	for name, damage := range map[string]func(s Checkout) error{
		"no record":          func(s Checkout) error { return s.Record.Truncate(0) },
		"record cut off":     func(s Checkout) error { return s.Record.Truncate(90) },
		"record of zeros":    func(s Checkout) error { _, err := s.Record.WriteAt(make([]byte, 40), 80); return err },
		"no .git":            func(s Checkout) error { return os.RemoveAll(filepath.Join(s.Tree, ".git")) },
		"no index":           func(s Checkout) error { return os.Remove(filepath.Join(s.Tree, ".git/index")) },
		"a lock of an index": func(s Checkout) error { return os.WriteFile(filepath.Join(s.Tree, ".git/index.lock"), nil, 0o600) },
		"no files":           func(s Checkout) error { return os.RemoveAll(filepath.Join(s.Tree, "d")) },
		"cut off checkout":   func(s Checkout) error { return os.Truncate(filepath.Join(s.Tree, "a"), 0) },
	} {
		t.Run(name, func(t *testing.T) {
			s := slot(t, Source{o.mirror(), o.url(), head})
			s.must(t)
			require.NoError(t, damage(s))
			r := s.must(t)
			assert.NoError(t, r.Recovered)
			assert.Equal(t, 2, r.Kept+r.Written)
			s.sameAsClone(t)
		})
	}
}

// TestSecondAttempt has the first fail in git: the tree is wiped, and made anew.
func TestSecondAttempt(t *testing.T) {
	o := newOrigin(t)
	s := slot(t, Source{o.mirror(), o.url(), o.commit(map[string]string{"a": "1", "b": "2"})})
	s.Mirror = o.mirror()
	s.must(t)
	dir, calls := t.TempDir(), filepath.Join(t.TempDir(), "calls")
	real, err := filepath.EvalSymlinks("/usr/bin/git")
	require.NoError(t, err)
	put(t, filepath.Join(dir, "git"), `#!/bin/sh
case " $* " in *" ls-files "*) if [ ! -e `+calls+` ]; then : >`+calls+`; echo "fatal: broken" >&2; exit 128; fi;; esac
exec `+real+` "$@"
`)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	r := s.must(t)
	assert.ErrorContains(t, r.Recovered, "git ls-files: fatal: broken")
	assert.Equal(t, 2, r.Written)
	s.sameAsClone(t)
}

func TestCheckoutErrors(t *testing.T) {
	o := newOrigin(t)
	head := o.commit(map[string]string{"a": "1"})
	s := slot(t, Source{o.mirror(), o.url(), strings.Repeat("0", 40)})
	_, err := s.Run(t.Context())
	require.ErrorIs(t, err, ErrNoCommit)
	s.Commit = head
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	s.Tree = "/nonexistent/tree"
	_, err = s.Run(t.Context())
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestDiskFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts a small file system")
	}
	o := newOrigin(t)
	s := slot(t, Source{o.mirror(), o.url(), o.commit(map[string]string{"a": strings.Repeat("incompressible?", 100_000)})})
	s.Mirror = o.mirror()
	mountSmall(t, s.Tree)
	_, err := s.Run(t.Context())
	require.ErrorIs(t, err, ErrDiskFull)
}
