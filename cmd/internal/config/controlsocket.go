package config

import (
	"cmp"
	"errors"
	"io/fs"
	"os"

	"codex-proxy/cmd/internal/paths"
)

// Socket returns the path of the control socket on which the daemon listens. It is
// the default one as long as the daemon has not read the settings that name another.
func (p Places) Socket() string {
	if _, err := os.Lstat(p.ControlSocket); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(paths.ControlSocket); err == nil {
			return paths.ControlSocket
		}
	}
	return cmp.Or(p.ControlSocket, paths.ControlSocket)
}
