package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"codex-proxy/test/machine/inside"

	"golang.org/x/sys/unix"
)

// mostRaces bounds the tries of an open(2) beside changes of the file system.
const mostRaces = 1000

// open opens a path of the machine as a process inside would: RESOLVE_IN_ROOT
// makes absolute symlinks stay inside (openat2(2)), which going through
// /proc/PID/root does not.
func (m *Machine) open(path string, flags int, mode fs.FileMode) (*os.File, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: unix.RESOLVE_IN_ROOT}
	if flags&unix.O_CREAT != 0 {
		how.Mode = uint64(mode.Perm())
	}
	fd, err := unix.Openat2(int(m.root.Fd()), path, &how)
	// The kernel cannot tell whether a ".." leads out of the root if something is renamed or mounted meanwhile. The links
	// of systemd to directories of dynamic users have one.
	for try := 1; errors.Is(err, unix.EAGAIN) && try < mostRaces; try++ {
		fd, err = unix.Openat2(int(m.root.Fd()), path, &how)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// ReadFile returns the content of a file of the machine.
func (m *Machine) ReadFile(path string) ([]byte, error) {
	f, err := m.open(path, unix.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// WriteFile makes or truncates a file of the machine; it belongs to root and
// has exactly that mode. Missing directories are made (0755).
func (m *Machine) WriteFile(path string, data []byte, mode fs.FileMode) error {
	f, err := m.create(path, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// CopyIn copies a file of the host to a path of the machine, mode included.
func (m *Machine) CopyIn(hostPath, path string) error {
	from, err := os.Open(hostPath)
	if err != nil {
		return err
	}
	defer from.Close()
	st, err := from.Stat()
	if err != nil {
		return err
	}
	to, err := m.create(path, st.Mode())
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

func (m *Machine) create(path string, mode fs.FileMode) (*os.File, error) {
	if err := m.mkdirAll(filepath.Dir(path)); err != nil {
		return nil, err
	}
	f, err := m.open(path, unix.O_CREAT|unix.O_TRUNC|unix.O_WRONLY, mode)
	if err != nil {
		return nil, err
	}
	if err := f.Chmod(mode.Perm()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (m *Machine) mkdirAll(dir string) error {
	if f, err := m.open(dir, unix.O_PATH|unix.O_DIRECTORY, 0); err == nil {
		return f.Close()
	}
	if err := m.mkdirAll(filepath.Dir(dir)); err != nil {
		return err
	}
	parent, err := m.open(filepath.Dir(dir), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer parent.Close()
	if err := unix.Mkdirat(int(parent.Fd()), filepath.Base(dir), 0o755); err != nil {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: err}
	}
	return nil
}

// link makes symbolic links.
func (m *Machine) link(links []inside.Link) error {
	for _, l := range links {
		if err := m.mkdirAll(filepath.Dir(l.Path)); err != nil {
			return err
		}
		if err := m.linkIn(filepath.Dir(l.Path), filepath.Base(l.Path), l.Target); err != nil {
			return fmt.Errorf("cannot link %s: %w", l.Path, err)
		}
	}
	return nil
}

func (m *Machine) linkIn(dir, name, target string) error {
	d, err := m.open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	return unix.Symlinkat(target, int(d.Fd()), name)
}

// DialUnix connects to a stream socket in the machine's file system, as the
// host's root.
func (m *Machine) DialUnix(ctx context.Context, path string) (*net.UnixConn, error) {
	f, err := m.open(path, unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}
