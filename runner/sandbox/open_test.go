package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// owned makes a directory of a user, closed to others above.
func owned(t *testing.T, path string, uid int) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(path, 0o755))
	require.NoError(t, os.Chown(path, uid, uid))
	return path
}

// What is opened is at the very path, and open to all users. Each error says what to do.
func TestOpen(t *testing.T) {
	top := t.TempDir()
	require.NoError(t, os.MkdirAll(top+"/rust/bin", 0o755))
	require.NoError(t, os.Mkdir(top+"/closed", 0o750))
	require.NoError(t, os.Symlink("rust", top+"/link"))
	require.NoError(t, os.WriteFile(top+"/file", nil, 0o755))
	for name, want := range map[string]string{
		"rust": "", "link": "goes through a symbolic link: name the directory itself", "link/bin": "goes through a symbolic link",
		"file": "is no directory: name", "closed": "may not be read by others, as sessions are: chmod -R o+rX " + top + "/closed",
		"gone": "is not there: install the toolchain again, or take it out of toolchains",
	} {
		dir, err := toolchain(filepath.Join(top, name), true).Open()
		if want == "" {
			require.NoError(t, err)
			require.NoError(t, dir.Close())
			continue
		}
		require.ErrorContains(t, err, want, name)
		assert.Equal(t, name == "gone", errors.Is(err, fs.ErrNotExist), name)
	}
}

// A user gets what the user can reach and owns: nothing of root or of another one, by whatever path.
func TestOpenAs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root opens directories as another user")
	}
	const alice, bob = 61001, 61002
	top := t.TempDir()
	for dir := top; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755))
	}
	home := owned(t, top+"/alice", alice)
	require.NoError(t, os.Chmod(home, 0o700))
	own := owned(t, home+"/.cargo", alice)
	other := owned(t, top+"/bob/.cargo", bob)
	closed := owned(t, top+"/closed/.cargo", alice)
	require.NoError(t, os.Chmod(top+"/closed", 0o700))
	require.NoError(t, os.Symlink("/root", home+"/.rustup"))
	require.NoError(t, os.Symlink(top+"/bob", home+"/.nvm"))
	account := Account{Name: "alice", UID: alice, GID: alice, Home: home}
	for dir, want := range map[string]string{
		own: "", other: "belongs to the user 61002", closed: "permission denied", top: "belongs to the user 0",
		home + "/.rustup": "symbolic link", home + "/.nvm/.cargo": "symbolic link",
	} {
		file, err := toolchain(dir, true).OpenAs(account)
		if want == "" {
			require.NoError(t, err)
			require.NoError(t, file.Close())
			continue
		}
		assert.ErrorContains(t, err, want, dir)
	}
	_, err := toolchain(top, true).OpenAs(Account{Home: "/root"})
	require.ErrorContains(t, err, "root has no toolchains of its own")
	// This process looks at files as before.
	_, err = os.ReadDir(top + "/closed")
	assert.NoError(t, err)
}

func TestFindAccount(t *testing.T) {
	passwd := []byte("root:x:0:0::/root:/bin/sh\nbad:x:7:x::/:\nalice:x:1001:1002:Alice:/home/alice:/bin/sh\neve:x:1001:1::/root:/bin/sh\n")
	a, err := FindAccount(passwd, 1001)
	require.NoError(t, err)
	assert.Equal(t, Account{"alice", "Alice", 1001, 1002, "/home/alice"}, a)
	for _, uid := range []int{7, 8} {
		_, err = FindAccount(passwd, uid)
		assert.ErrorIs(t, err, errNoAccount)
	}
}
