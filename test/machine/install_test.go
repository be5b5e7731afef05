package machine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestInstall has the files there before systemd looks for units.
func TestInstall(t *testing.T) {
	t.Parallel()
	unit := filepath.Join(t.TempDir(), "hello.service")
	require.NoError(t, os.WriteFile(unit, []byte(debUnit), 0o600))
	m := Boot(t, Debian("trixie"), Options{Install: []Entry{
		{Path: "/usr/lib/systemd/system/hello.service", Source: unit, Mode: 0o644},
		{Path: "/etc/hello", Mode: 0o750},
		{Path: "/etc/motd", Link: "hello"},
	}})
	m.MustRun(t, "systemctl", "start", "hello.service")
	assert.Equal(t, "644 root root\n750 root root\n",
		m.MustRun(t, "stat", "--format=%a %U %G", "/usr/lib/systemd/system/hello.service", "/etc/hello"))
	assert.Equal(t, "hello\n", m.MustRun(t, "readlink", "/etc/motd"))
}
