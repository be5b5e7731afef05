package paths

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// FindControlSocket returns the path of the daemon's control socket on the machine at root.
// It is the one that the settings name, or ControlSocket if named is empty. A daemon that
// has not read the settings yet has ControlSocket alone: that is returned if named does not
// exist there.
func FindControlSocket(root, named string) string {
	path := cmp.Or(named, ControlSocket)
	_, err := os.Lstat(filepath.Join(root, path))
	if !errors.Is(err, fs.ErrNotExist) {
		return path
	}
	if _, err := os.Lstat(filepath.Join(root, ControlSocket)); err == nil {
		return ControlSocket
	}
	return path
}
