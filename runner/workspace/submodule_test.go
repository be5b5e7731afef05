package workspace

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// family is a repository with a submodule, which has one of its own.
type family struct {
	top, middle, leaf origin
	mirrors           map[string]string
}

func newFamily(t *testing.T) (family, Source) {
	f := family{top: newOrigin(t), middle: newOrigin(t), leaf: newOrigin(t)}
	f.leaf.commit(map[string]string{"leaf": "1"})
	f.middle.commit(map[string]string{"middle": "1"})
	f.middle.git("submodule", "--quiet", "add", "--name", "a/leaf", f.leaf.url(), "libs/leaf")
	f.middle.git("commit", "-qam", "leaf")
	f.top.commit(map[string]string{"top": "1"})
	f.top.git("submodule", "--quiet", "add", "--name", "m", f.middle.url(), "sub/middle")
	f.top.git("commit", "-qam", "middle")
	f.mirrors = map[string]string{f.middle.url(): f.middle.mirror(), f.leaf.url(): f.leaf.mirror()}
	return f, Source{f.top.mirror(), f.top.url(), f.top.git("rev-parse", "HEAD")}
}

func (f family) find(url string) (string, error) {
	if m, ok := f.mirrors[url]; ok {
		return m, nil
	}
	return "", ErrNoMirror
}

func TestSubmodules(t *testing.T) {
	f, source := newFamily(t)
	subs, err := Submodules(t.Context(), source.Mirror, source.URL, source.Commit)
	require.NoError(t, err)
	assert.Equal(t, []Submodule{{"m", "sub/middle", f.middle.url(), f.middle.git("rev-parse", "HEAD")}}, subs)

	s := slot(t, source)
	s.Mirrors = f.find
	assert.Equal(t, Report{Written: 5}, s.must(t))
	assert.FileExists(t, filepath.Join(s.Tree, "sub/middle/libs/leaf/leaf"))
	s.sameAsClone(t)
	status := origin{t, s.Tree}.git("submodule", "status", "--recursive")
	assert.NotRegexp(t, `(?m)^[-+U]`, status)
	assert.Contains(t, status, "sub/middle/libs/leaf")

	put(t, filepath.Join(s.Tree, "sub/middle/libs/leaf/leaf"), "bad")
	require.NoError(t, os.RemoveAll(filepath.Join(s.Tree, "sub/middle/.git")))
	put(t, filepath.Join(s.Tree, "sub/middle/.git"), "gitdir: /nonexistent")
	assert.Equal(t, 4, s.must(t).Kept)
	s.sameAsClone(t)

	link(t, filepath.Join(s.Tree, "sub"), t.TempDir())
	assert.Equal(t, 2, s.must(t).Kept)
	s.sameAsClone(t)
}

// Of a local repository the workspace has the submodules that are checked out there, and no others are fetched.
func TestSubmodulesOfALocalRepository(t *testing.T) {
	f, source := newFamily(t)
	f.top.commit(map[string]string{".gitmodules": "[submodule \"m\"]\n\tpath = sub/middle\n\turl = " + f.middle.url() +
		"\n[submodule \"far\"]\n\tpath = far\n\turl = ../far\n"})
	f.top.git("update-index", "--add", "--cacheinfo", "160000,"+source.Commit+",far")
	f.top.git("commit", "-qm", "far")
	commit := f.top.git("rev-parse", "HEAD")
	clone, m := origin{t, t.TempDir()}, mirrorOf(t, "")
	f.top.git("clone", "-q", f.top.url(), clone.dir)
	names := func() (all []string) {
		t.Helper()
		require.NoError(t, sendBundle(t, m, clone.dir, commit))
		want, err := LocalTags(t.Context(), Local{Dir: clone.dir, Commit: commit})
		require.NoError(t, err)
		got, err := Tags(t.Context(), m.Dir)
		require.NoError(t, err)
		assert.Equal(t, want, got)
		subs, err := Submodules(t.Context(), m.Dir, "", commit)
		require.NoError(t, err)
		for _, s := range subs {
			all = append(all, s.Name)
		}
		return all
	}
	assert.Empty(t, names())
	clone.git("submodule", "--quiet", "update", "--init", "sub/middle")
	assert.Equal(t, []string{"m"}, names())
	s := slot(t, Source{m.Dir, "", commit})
	s.Mirrors = f.find
	s.must(t)
	assert.FileExists(t, filepath.Join(s.Tree, "sub/middle/libs/leaf/leaf"))
	assert.DirExists(t, filepath.Join(s.Tree, "far"))
	assert.Empty(t, origin{t, s.Tree}.git("status", "--porcelain"))
}

func TestSubmoduleErrors(t *testing.T) {
	f, source := newFamily(t)
	s := slot(t, source)
	s.Mirrors = f.find
	delete(f.mirrors, f.leaf.url())
	_, err := s.Run(t.Context())
	require.ErrorIs(t, err, ErrNoMirror)
	require.EqualError(t, err, "submodule sub/middle/libs/leaf: its repository has no mirror: fetch it first")
	f.mirrors[f.leaf.url()] = f.top.mirror()
	_, err = s.Run(t.Context())
	require.ErrorIs(t, err, ErrNoCommit)
	require.ErrorContains(t, err, "submodule sub/middle/libs/leaf: ")

	for content, want := range map[string]string{
		"[submodule \"../../x\"]\n\tpath = sub/middle\n\turl = https://h/x\n":               "is no path inside of .git/modules",
		"[submodule \"x\"]\n\tpath = sub/middle\n\turl = ext::id\n":                         "cannot be fetched",
		"[submodule \"x\"]\n\tpath = sub/middle\n\turl = ../../../../../../../../../../x\n": "relative URL leaves",
		"[submodule": "cannot read .gitmodules",
	} {
		s.Commit = f.top.commit(map[string]string{".gitmodules": content})
		s.Mirror = f.top.mirror()
		_, err := s.Run(t.Context())
		assert.ErrorContains(t, err, want)
	}
}

func TestRelativeURL(t *testing.T) {
	for _, c := range [][3]string{
		{"https://h/a/b.git", "../c.git", "https://h/a/c.git"},
		{"https://h/a/b.git/", "../../c", "https://h/c"},
		{"git@h:a/b", "../c", "git@h:a/c"},
		{"https://h/a", "./sub", "https://h/a/sub"},
		{"https://h/a", "git@other:x", "git@other:x"},
	} {
		got, err := resolve(c[0], c[1])
		require.NoError(t, err)
		assert.Equal(t, c[2], got)
	}
}
