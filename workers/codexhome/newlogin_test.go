package codexhome

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func textOf(t *testing.T, elem ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(elem...))
	require.NoError(t, err)
	return string(text)
}

// A new login waits beside the old one, takes its place, and the old one can then be ended.
func TestANewLogin(t *testing.T) {
	home, me := t.TempDir(), Account{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	var before string
	for _, login := range []string{"first", "second", "third"} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, authName), []byte(login), 0o600))
		require.NoError(t, Offer(dir, home))
		if before != "" {
			assert.Equal(t, before, textOf(t, home, authName), "codex goes on with its login")
		}
		require.NoError(t, AdoptLogin(home))
		require.NoError(t, AdoptLogin(home), "again")
		assert.Equal(t, login, textOf(t, home, authName))
		assert.NoFileExists(t, filepath.Join(home, newAuthName))
		was, err := TakeBefore(home, dir, me)
		require.NoError(t, err)
		assert.Equal(t, before != "", was)
		if was {
			assert.Equal(t, before, textOf(t, dir, authName))
		}
		assert.NoFileExists(t, filepath.Join(home, beforeAuthName))
		before = login
	}
	assert.ErrorContains(t, Offer(t.TempDir(), home), "cannot read the login in ")
	assert.Equal(t, "third", textOf(t, home, authName), "the login that is there stays")
}

// After a stop at any point of AdoptLogin the home has a login, and the next start uses the new one.
func TestAnInterruptedAdoption(t *testing.T) {
	for name, left := range map[string]map[string]string{
		"before it":      {authName: "old", newAuthName: "new"},
		"with the link":  {authName: "old", newAuthName: "new", beforeAuthName: "old"},
		"one before":     {authName: "old", newAuthName: "new", beforeAuthName: "older"},
		"a first login":  {newAuthName: "new"},
		"half a new one": {authName: "new", newAuthName + ".part": "hal"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			for file, text := range left {
				require.NoError(t, os.WriteFile(filepath.Join(home, file), []byte(text), 0o600))
			}
			require.NoError(t, AdoptLogin(home))
			assert.Equal(t, "new", textOf(t, home, authName))
			if left[authName] == "old" {
				assert.Equal(t, "old", textOf(t, home, beforeAuthName))
			}
		})
	}
}

// Root writes for the owner of the home, follows no link that leads out of it, and opens no login for others.
func TestAnOfferBelongsToTheHome(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	home, dir, outside := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.Chown(home, 61234, 61235))
	require.NoError(t, os.WriteFile(filepath.Join(dir, authName), []byte("login"), 0o600))
	require.NoError(t, os.WriteFile(outside, []byte("text"), 0o600))
	for _, link := range []string{newAuthName, newAuthName + ".part"} {
		require.NoError(t, os.Symlink(outside, filepath.Join(home, link)))
	}
	require.NoError(t, Offer(dir, home))
	assert.Equal(t, "text", textOf(t, outside))
	info, err := os.Lstat(filepath.Join(home, newAuthName))
	require.NoError(t, err)
	st := info.Sys().(*syscall.Stat_t)
	assert.Equal(t, [2]uint32{61234, 61235}, [2]uint32{st.Uid, st.Gid})
	assert.Equal(t, os.FileMode(0o600), info.Mode())

	require.NoError(t, os.Remove(filepath.Join(dir, authName)))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, authName)))
	assert.ErrorContains(t, Offer(dir, home), "cannot read the login")
}

// All files of a login move together, none is ever in two homes, and none replaces another.
func TestMoveLogin(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	moved, err := MoveLogin(from, to)
	require.NoError(t, err)
	assert.False(t, moved)
	for _, name := range loginNames {
		require.NoError(t, os.WriteFile(filepath.Join(from, name), []byte(name), 0o600))
	}
	link := filepath.Join(from, "kept-by-a-tool")
	require.NoError(t, os.Link(filepath.Join(from, authName), link))
	moved, err = MoveLogin(from, to)
	require.NoError(t, err)
	assert.True(t, moved)
	for _, name := range loginNames {
		assert.Equal(t, name, textOf(t, to, name))
		assert.NoFileExists(t, filepath.Join(from, name))
	}
	linked, err := os.Stat(link)
	require.NoError(t, err)
	now, err := os.Stat(filepath.Join(to, authName))
	require.NoError(t, err)
	assert.False(t, os.SameFile(linked, now), "the old owner sees nothing of later tokens")

	require.NoError(t, os.WriteFile(filepath.Join(from, authName), []byte("planted"), 0o600))
	_, err = MoveLogin(from, to)
	require.ErrorIs(t, err, os.ErrExist)
	assert.Equal(t, authName, textOf(t, to, authName))

	require.NoError(t, os.Remove(filepath.Join(from, authName)))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(from, authName)))
	_, err = MoveLogin(from, t.TempDir())
	assert.Error(t, err)
	require.NoError(t, os.Remove(filepath.Join(from, authName)))
	require.NoError(t, os.WriteFile(filepath.Join(from, "x.json"), []byte("login"), 0o600))
	require.NoError(t, os.Symlink("x.json", filepath.Join(from, authName)))
	other := t.TempDir()
	_, err = MoveLogin(from, other)
	require.ErrorContains(t, err, "auth.json is no file but a link or a directory: put the file of codex's login in its place")
	assert.Equal(t, "login", textOf(t, from, authName), "nothing has moved")
	left, err := os.ReadDir(other)
	require.NoError(t, err)
	assert.Empty(t, left)
	require.NoError(t, os.Symlink("x.json", filepath.Join(other, authName)))
	require.NoError(t, os.WriteFile(filepath.Join(other, "x.json"), []byte("of a tool"), 0o600))
	_, err = MoveLogin(t.TempDir(), other)
	require.ErrorContains(t, err, "put the file of codex's login in its place", "root copies no other file of the home")
	_, err = MoveLogin(filepath.Join(from, "nowhere"), to)
	assert.ErrorIs(t, err, os.ErrNotExist)
}
