package machine

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	debControl = "Package: hello\nVersion: 1\nArchitecture: all\nMaintainer: test <test@localhost>\n" +
		"Depends: systemd, polkitd, ca-certificates\nDescription: test\n"
	debPostinst = "#!/bin/sh\nset -e\ndeb-systemd-helper enable hello.service\nsystemctl daemon-reload\n" +
		"deb-systemd-invoke start hello.service\n"
	debUnit = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"
)

func buildDeb(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("dpkg-deb is not installed")
	}
	tree := t.TempDir()
	const mode = 0o755 // as dpkg-deb wants of a maintainer script
	for path, content := range map[string]string{
		"DEBIAN/control": debControl, "DEBIAN/postinst": debPostinst, "usr/lib/systemd/system/hello.service": debUnit,
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(tree, path)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(tree, path), []byte(content), mode))
	}
	deb := filepath.Join(t.TempDir(), "hello.deb")
	out, err := exec.Command("dpkg-deb", "--build", "--root-owner-group", tree, deb).CombinedOutput()
	require.NoError(t, err, string(out))
	return deb
}

// TestInstallDeb installs without a network, maintainer scripts included.
func TestInstallDeb(t *testing.T) {
	t.Parallel()
	deb := buildDeb(t)
	for _, suite := range []string{"trixie", "bookworm"} {
		t.Run(suite, func(t *testing.T) {
			t.Parallel()
			m := Boot(t, Debian(suite), Options{Units: []string{"hello.service"}})
			out, err := m.InstallDeb(t.Context(), deb)
			require.NoError(t, err, out)
			assert.Equal(t, "active\n", m.MustRun(t, "systemctl", "is-active", "hello.service"))
		})
	}
}
