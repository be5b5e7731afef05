package inside

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Entry is a file, directory or symbolic link that a machine has before systemd
// starts. It belongs to root.
type Entry struct {
	Path   string      // absolute path in the machine; missing directories are made (0755)
	Source string      // of a file, its path on the host
	Link   string      // of a symbolic link, its target
	Mode   fs.FileMode // of a file or directory; an Entry without Source and Link is a directory
}

// install makes the entries below root, which is not the root directory yet: the
// host's files are still in reach. No link inside root leads out of it (os.Root).
func (s Spec) install(root string) error {
	if len(s.Install) == 0 {
		return nil
	}
	r, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer r.Close()
	for _, e := range s.Install {
		if err := e.install(r); err != nil {
			return fmt.Errorf("cannot install %s: %w", e.Path, err)
		}
	}
	return nil
}

func (e Entry) install(root *os.Root) error {
	path := strings.TrimPrefix(filepath.Clean(e.Path), "/")
	if err := root.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	switch {
	case e.Link != "":
		if err := root.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return root.Symlink(e.Link, path)
	case e.Source == "":
		if err := root.MkdirAll(path, e.Mode); err != nil {
			return err
		}
	default:
		if err := copyFile(root, path, e.Source); err != nil {
			return err
		}
	}
	if err := root.Chown(path, 0, 0); err != nil { // a directory may have been there
		return err
	}
	return root.Chmod(path, e.Mode) // the umask is somebody's
}

func copyFile(root *os.Root, path, source string) error {
	from, err := os.Open(source)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := root.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	to, err := root.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}
