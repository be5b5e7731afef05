package apikeys

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/cmd/internal/paths"
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
	byDefault := Editor{File: paths.KeyFile, Socket: paths.ControlSocket, notify: true, named: paths.KeyFile}
	for _, tc := range []struct {
		name, settings string
		given, want    Editor
	}{
		{"named", own, Editor{}, Editor{File: "/srv/keys", Socket: "/srv/socket", notify: true, named: "/srv/keys"}},
		{
			"the same", own, Editor{File: "/srv//keys"},
			Editor{File: "/srv//keys", Socket: "/srv/socket", notify: true, named: "/srv/keys"},
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
