package here

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "here.toml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestSettings(t *testing.T) {
	machine := write(t, "environment = [\"AWS_PROFILE\", \"MISE_*\"]\nidle_stop = \"1h\"\ncodex_path = \"/opt/a\"\n")
	own := write(t, "environment = [\"MINE\"]\ncontinue_limit = 5\ncodex_path = \"/opt/b\"\n")
	s, err := Load(machine, own, filepath.Join(t.TempDir(), "none"))
	require.NoError(t, err)
	assert.Equal(t, []any{time.Hour, 5, "/opt/b"}, []any{s.IdleStop, s.ContinueLimit, s.CodexPath})
	for name, want := range map[string]bool{"PATH": true, "LC_TIME": true, "MISE_X": true, "MINE": true, "AWS_PROFILE": true,
		"AWS_SECRET_ACCESS_KEY": false, "OPENAI_API_KEY": false, "GITHUB_TOKEN": false, "PATHS": false, "LC": false} {
		assert.Equal(t, want, s.Passes(name), name)
	}
}

func TestSettingsWithFaults(t *testing.T) {
	for text, want := range map[string]string{
		"environmen = []\n":              `:1: unknown key "environmen" (did you mean "environment"?)`,
		"environment = [\"A B\"]\n":      `:1: environment: "A B" is no name of a variable`,
		"\nidle_stop = \"soon\"\n":       `:2: idle_stop: "soon" is no time of a second or more`,
		"continue_limit = 0\n":           ":1: continue_limit: 0 is not between 1 and 100",
		"codex_path = \"bin/codex\"\n":   `:1: codex_path: "bin/codex" is not an absolute path`,
		"environment = \"PATH\"\n":       ":1: ",
		"environment = [\"*\", \"A\"]\n": `"*" is no name`,
	} {
		_, err := Load(write(t, text))
		assert.ErrorContains(t, err, want, text)
	}
	dir := t.TempDir()
	_, err := Load(dir)
	assert.ErrorContains(t, err, "it is not a regular file")
}

// The link comes and goes, with the directories that it needed and no others.
func TestLink(t *testing.T) {
	dir := t.TempDir()
	home, socket := Home{Dir: dir, UID: os.Getuid(), GID: os.Getgid()}, "/run/codex-user/alice.sock"
	made, err := home.Link(socket)
	require.NoError(t, err)
	assert.Equal(t, []string{filepath.Join(dir, ".codex"), filepath.Join(dir, ".codex", controlDir)}, made)
	linked, _ := home.Linked(socket)
	assert.True(t, linked)
	again, err := home.Link(socket)
	require.NoError(t, err)
	assert.Empty(t, again)
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".codex", "auth.json"), nil, 0o600))
	require.NoError(t, home.Unlink(socket, made))
	require.NoError(t, home.Unlink(socket, made), "again")
	assert.NoDirExists(t, filepath.Join(dir, ".codex", controlDir))
	assert.FileExists(t, filepath.Join(dir, ".codex", "auth.json"))
}

// What lies in the place of the link is replaced if it is codex's and unused, and otherwise stays.
func TestLinkInPlaceOfAnother(t *testing.T) {
	const socket = "/run/codex-user/alice.sock"
	for name, tc := range map[string]struct {
		make func(t *testing.T, path string)
		want string // the error
	}{
		"dangling link": {func(t *testing.T, path string) { require.NoError(t, os.Symlink("/tmp/none", path)) }, ""},
		"stale socket": {func(t *testing.T, path string) {
			l, err := net.Listen("unix", path)
			require.NoError(t, err)
			l.(*net.UnixListener).SetUnlinkOnClose(false)
			require.NoError(t, l.Close())
		}, ""},
		"live socket": {func(t *testing.T, path string) {
			l, err := net.Listen("unix", path)
			require.NoError(t, err)
			t.Cleanup(func() { _ = l.Close() })
		}, "an app-server of codex listens on"},
		"link to a live socket": {func(t *testing.T, path string) { // root connects through no link of the user
			l, err := net.Listen("unix", path+".x")
			require.NoError(t, err)
			t.Cleanup(func() { _ = l.Close() })
			require.NoError(t, os.Symlink(path+".x", path))
		}, ""},
		"file": {func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, []byte("mine"), 0o600)) },
			"is neither a socket nor a link: move it away"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "here") // short, for the path of a socket
			require.NoError(t, err)
			t.Cleanup(func() { os.RemoveAll(dir) })
			require.NoError(t, os.MkdirAll(filepath.Dir(ControlPath(dir)), 0o700))
			tc.make(t, ControlPath(dir))
			home := Home{Dir: dir, UID: os.Getuid(), GID: os.Getgid()}
			_, err = home.Link(socket)
			linked, instead := home.Linked(socket)
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want)
				assert.False(t, linked)
				assert.NotEmpty(t, instead)
				require.NoError(t, home.Unlink(socket, nil))
				_, err := os.Lstat(ControlPath(dir))
				assert.NoError(t, err, "it stays")
				return
			}
			require.NoError(t, err)
			assert.True(t, linked)
		})
	}
}

// Root goes nowhere in a home where the user may not go, wherever the user's links lead.
func TestRootHasTheRightsOfTheUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("root alone takes the rights of another user; make check REAL=1 as root runs it")
	}
	const nobody = 65534
	top, err := os.MkdirTemp("", "here")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(top) })
	require.NoError(t, os.Chmod(top, 0o755))
	dir, secret := filepath.Join(top, "home"), filepath.Join(top, "secret")
	require.NoError(t, os.Mkdir(secret, 0o700))
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.Chown(dir, nobody, nobody))
	home := Home{Dir: dir, UID: nobody, GID: nobody}
	require.NoError(t, os.Symlink(secret, filepath.Join(dir, ".codex")))
	_, err = home.Link("/run/x.sock")
	require.Error(t, err)
	entries, err := os.ReadDir(secret)
	require.NoError(t, err)
	assert.Empty(t, entries)
	require.NoError(t, os.Remove(filepath.Join(dir, ".codex")))
	_, err = home.Link("/run/x.sock")
	require.NoError(t, err)
	info, err := os.Lstat(ControlPath(dir))
	require.NoError(t, err)
	assert.Equal(t, uint32(nobody), ownerOf(info))
}

// Nor does a group of root's give it more.
func TestRootHasTheGroupsOfTheUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("root alone takes the rights of another user; make check REAL=1 as root runs it")
	}
	const nobody = 65534
	before, err := syscall.Getgroups()
	require.NoError(t, err)
	require.NoError(t, syscall.Setgroups([]int{0}))
	t.Cleanup(func() { require.NoError(t, syscall.Setgroups(before)) })
	top, err := os.MkdirTemp("", "here")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(top) })
	require.NoError(t, os.Chmod(top, 0o755))
	dir, shared := filepath.Join(top, "home"), filepath.Join(top, "shared")
	require.NoError(t, os.Mkdir(shared, 0o700))
	require.NoError(t, os.Chmod(shared, 0o775)) //nolint:gosec // the group is the matter
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.Symlink(shared, filepath.Join(dir, ".codex")))
	_, err = Home{Dir: dir, UID: nobody, GID: nobody}.Link("/run/x.sock")
	require.Error(t, err)
	now, err := syscall.Getgroups()
	require.NoError(t, err)
	assert.Equal(t, []int{0}, now, "the other threads keep theirs")
}

func TestRecords(t *testing.T) {
	d := Records(filepath.Join(t.TempDir(), "records"))
	list, err := d.All()
	require.NoError(t, err)
	assert.Empty(t, list)
	for _, name := range []string{"bob", "alice"} {
		require.NoError(t, d.Put(Record{User: name, Home: "/home/" + name}))
	}
	list, err = d.All()
	require.NoError(t, err)
	require.Len(t, list, 2)
	assert.Equal(t, "alice", list[0].User)
	require.NoError(t, os.WriteFile(d.file("carol"), []byte("{"), 0o600))
	list, err = d.All()
	assert.ErrorContains(t, err, "carol.json does not parse")
	assert.ErrorContains(t, err, "remove it, then codex-proxy here enable carol")
	assert.Len(t, list, 2)
	for _, name := range []string{"alice", "bob", "carol", "carol"} {
		require.NoError(t, d.Remove(name))
	}
	assert.NoDirExists(t, string(d))
}

func TestConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "codex", "config.toml")
	is := func(want ConfigState) {
		t.Helper()
		state, err := ConfigOf(file)
		require.NoError(t, err)
		assert.Equal(t, want, state)
	}
	is(ConfigAbsent)
	require.NoError(t, WriteConfig(file))
	is(ConfigOurs)
	require.NoError(t, RemoveConfig(file))
	is(ConfigAbsent)
	for text, want := range map[string]ConfigState{"model = \"x\"\n": ConfigLacks,
		"features = { daemon_auto_start = false }\n": ConfigHas, "[features]\ndaemon_auto_start = true\n": ConfigLacks} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		is(want)
		require.NoError(t, WriteConfig(file))
		require.NoError(t, RemoveConfig(file))
		now, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, text, string(now), "another's file stays")
	}
}
