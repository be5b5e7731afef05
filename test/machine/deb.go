package machine

import (
	"context"
	"path/filepath"
)

// debsDir has the packages that InstallDeb has installed.
const debsDir = "/var/cache/debs"

// InstallDeb installs a .deb of the host with apt-get, maintainer scripts
// included. No network is needed if the machine has the package's dependencies.
// It returns the output of apt-get.
func (m *Machine) InstallDeb(ctx context.Context, hostPath string) (string, error) {
	path := debsDir + "/" + filepath.Base(hostPath)
	if err := m.CopyIn(hostPath, path); err != nil {
		return "", err
	}
	stdout, _, err := m.Run(ctx, "apt-get", "install", "--yes", "--allow-downgrades",
		"--option=APT::Sandbox::User=root", "--option=Dpkg::Use-Pty=0", path)
	return stdout, err
}
