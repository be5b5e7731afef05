package workspace

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestChanged(t *testing.T) {
	o := newOrigin(t)
	changed := func(dir string) bool {
		t.Helper()
		is, err := Changed(t.Context(), dir)
		require.NoError(t, err)
		return is
	}
	assert.False(t, changed(o.dir), "without a commit")
	o.commit(map[string]string{"file": "one", ".gitignore": "made\n"})
	assert.False(t, changed(o.dir))
	put(t, filepath.Join(o.dir, "made"), "ignored")
	assert.False(t, changed(o.dir))
	put(t, filepath.Join(o.dir, "file"), "two")
	assert.True(t, changed(o.dir))
	o.commit(nil)
	assert.False(t, changed(o.dir))
	put(t, filepath.Join(o.dir, "new"), "")
	assert.True(t, changed(o.dir))

	linked := filepath.Join(t.TempDir(), "linked")
	o.git("worktree", "add", "--quiet", "--detach", linked)
	assert.False(t, changed(linked))
	put(t, filepath.Join(linked, "file"), "three")
	assert.True(t, changed(linked))

	bare := filepath.Join(t.TempDir(), "bare.git")
	o.git("clone", "--quiet", "--bare", o.dir, bare)
	assert.False(t, changed(bare))
	index := filepath.Join(o.dir, ".git", "index")
	before, err := os.Stat(index)
	require.NoError(t, err)
	assert.True(t, changed(o.dir))
	after, err := os.Stat(index)
	require.NoError(t, err)
	assert.Equal(t, before.ModTime(), after.ModTime())
	assert.True(t, os.SameFile(before, after), "nothing was written")
}

// A repository may belong to somebody else, whose settings name programs.
func TestLocalRepositoriesRunNothing(t *testing.T) {
	o := newOrigin(t)
	commit := o.commit(map[string]string{"file": "one", ".gitattributes": "file filter=theirs"})
	ran := filepath.Join(t.TempDir(), "ran")
	o.git("config", "filter.theirs.clean", "touch "+ran+"; cat")
	put(t, filepath.Join(o.dir, "file"), "two")
	is, err := Changed(t.Context(), o.dir)
	require.NoError(t, err)
	assert.True(t, is)
	assert.NoFileExists(t, ran)

	// A partial clone gets what is missing from its remote.
	partial := newOrigin(t)
	for name, value := range map[string]string{
		"core.repositoryFormatVersion": "1", "extensions.partialClone": "origin", "protocol.file.allow": "always",
		"remote.origin.url": o.dir, "remote.origin.promisor": "true", "remote.origin.uploadpack": "touch " + ran + "; git-upload-pack",
	} {
		partial.git("config", name, value)
	}
	put(t, filepath.Join(partial.dir, ".git", "refs", "heads", "theirs"), commit+"\n")
	_, err = Resolve(t.Context(), filepath.Join(partial.dir, ".git"), "theirs")
	require.Error(t, err)
	require.Error(t, WriteBundle(t.Context(), Local{Dir: partial.dir, Commit: commit}, nil, "", io.Discard))
	_, err = Changed(t.Context(), partial.dir)
	require.NoError(t, err)
	assert.NoFileExists(t, ran)
}

// Files in Git LFS are not looked at: without the filter each looks changed.
func TestChangedWithLFS(t *testing.T) {
	o := newOrigin(t)
	first := o.commit(map[string]string{"a": "1"})
	assert.False(t, HasLFS(t.Context(), Local{Dir: o.dir, Commit: first}))
	commit := o.commit(map[string]string{"d/.gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", "d/a.bin": "pointer", "b": "1"})
	assert.True(t, HasLFS(t.Context(), Local{Dir: o.dir, Commit: commit}))
	put(t, filepath.Join(o.dir, "d/a.bin"), "content")
	changed, err := Changed(t.Context(), o.dir)
	require.NoError(t, err)
	assert.False(t, changed)
	put(t, filepath.Join(o.dir, "b"), "22")
	changed, err = Changed(t.Context(), o.dir)
	require.NoError(t, err)
	assert.True(t, changed)
}

func TestOriginHasNoCredential(t *testing.T) {
	o := newOrigin(t)
	assert.Empty(t, Origin(t.Context(), filepath.Join(o.dir, ".git")))
	for url, want := range map[string]string{
		"https://token@git.example.org:8443/a.git": "https://git.example.org:8443/a.git",
		"https://u:token@git.example.org/a.git":    "https://git.example.org/a.git",
		"https://git.example.org/a%20b":            "https://git.example.org/a%20b",
		"ssh://git@git.example.org/a":              "ssh://git@git.example.org/a",
		"git@git.example.org:a":                    "git@git.example.org:a",
		"/srv/a.git":                               "",
		"file:///srv/a.git":                        "",
	} {
		o.git("config", "remote.origin.url", url)
		assert.Equal(t, want, Origin(t.Context(), filepath.Join(o.dir, ".git")), url)
	}
}
