package apikeys

import (
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/paths"
	"codex-proxy/proxy/auth"
)

// configured writes settings and returns their path.
func configured(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.toml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// What the settings name is changed, and only that goes to the running service.
func TestKeysAreThoseOfTheSettings(t *testing.T) {
	own := configured(t, "api_keys = \"/srv/keys\"\ncontrol_socket = \"/srv/socket\"\n")
	empty, bad := configured(t, ""), configured(t, "api_kees = \"/srv/keys\"\n")
	both := Editor{File: "/x", Socket: "/y"}
	byDefault := Editor{File: paths.KeyFile, Socket: paths.ControlSocket, notify: true, named: paths.KeyFile, checked: true}
	for _, tc := range []struct {
		name, settings string
		given, want    Editor
	}{
		{"named", own, Editor{}, Editor{File: "/srv/keys", Socket: "/srv/socket", notify: true, named: "/srv/keys", checked: true}},
		{
			"the same", own, Editor{File: "/srv//keys"},
			Editor{File: "/srv//keys", Socket: "/srv/socket", notify: true, named: "/srv/keys", checked: true},
		},
		{
			"another", own, Editor{File: paths.KeyFile},
			Editor{File: paths.KeyFile, Socket: "/srv/socket", named: paths.KeyFile},
		},
		{"another, with a socket", own, both, Editor{File: "/x", Socket: "/y", notify: true}},
		{"none named", empty, Editor{}, byDefault},
		{"no settings", empty + ".none", Editor{}, byDefault},
		{"bad settings, not needed", bad, both, Editor{File: "/x", Socket: "/y", notify: true}},
	} {
		require.NoError(t, tc.given.Locate(tc.settings), tc.name)
		assert.Equal(t, tc.want, tc.given, tc.name)
	}
	for _, o := range []Editor{{}, {File: "/x"}, {Socket: "/y"}} {
		assert.ErrorContains(t, o.Locate(bad), "api_keys", "%+v", o)
	}
}

// A new file of root's is for the daemon to read.
func TestNewKeyFileIsForTheDaemon(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	file := File(filepath.Join(t.TempDir(), "api-keys"))
	group, err := user.LookupGroup(paths.User)
	require.NoError(t, file.write(nil))
	info, statErr := os.Stat(string(file))
	require.NoError(t, statErr)
	if err != nil {
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "there is no such group here")
		return
	}
	assert.Equal(t, os.FileMode(0o640), info.Mode().Perm())
	assert.Equal(t, group.Gid, fmt.Sprint(info.Sys().(*syscall.Stat_t).Gid))
}

// A key of the service may name its workers and remotes alone, and a file for another service any.
func TestNamesOfKeysExist(t *testing.T) {
	dir := t.TempDir()
	settings, own := filepath.Join(dir, "config.toml"), filepath.Join(dir, "keys")
	require.NoError(t, os.WriteFile(settings, []byte("api_keys = \""+own+"\"\n"), 0o644))
	change := func(file, limit, names string) error {
		e := Editor{File: File(file), Socket: filepath.Join(dir, "none"), Stdout: io.Discard, Stderr: io.Discard}
		e.Limits = []Limit{{limit, names}}
		require.NoError(t, e.Locate(settings))
		return e.Set(t.Context(), "alice")
	}
	set := func(file, accounts string) error { return change(file, auth.Accounts, accounts) }
	line := "alice " + strings.Repeat("ab", 32) + "\n"
	for _, file := range []string{own, own + "2"} {
		require.NoError(t, os.WriteFile(file, []byte(line), 0o600))
	}
	assert.EqualError(t, set(own, "work"), `there is no account "work"; there are none (codex-proxy accounts add makes one)`)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "workers"), 0o755))
	for _, name := range []string{"work", "private"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "workers", name+".toml"), nil, 0o644))
	}
	assert.EqualError(t, set(own, "worl,private"), `there is no account "worl"; did you mean work?`)
	assert.EqualError(t, set(own, "other"),
		`there is no account "other"; there are private, work (codex-proxy accounts add makes one)`)
	text, err := os.ReadFile(own)
	require.NoError(t, err)
	assert.Equal(t, line, string(text), "an error changes nothing")
	require.NoError(t, set(own, "work,private"))
	text, err = os.ReadFile(own)
	require.NoError(t, err)
	assert.Contains(t, string(text), strings.TrimSpace(line)+" accounts=work,private\n")
	require.NoError(t, set(own, "none"))
	require.NoError(t, set(own+"2", "other"))

	assert.EqualError(t, change(own, auth.Remotes, "build:viewer"),
		`there is no remote "build"; there are none (codex-proxy remotes add makes one)`)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "remotes"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "remotes", "build.toml"), nil, 0o644))
	assert.EqualError(t, change(own, auth.Remotes, "buidl"), `there is no remote "buidl"; did you mean build?`)
	require.NoError(t, change(own, auth.Remotes, "build:viewer"))
	require.NoError(t, set(own, "work"), "the file of a remote may be gone since its key was set")
	require.NoError(t, change(own+"2", auth.Remotes, "other"))
}
