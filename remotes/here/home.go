package here

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Control is codex's control socket below CODEX_HOME, and codexHome CODEX_HOME below the home of a user. codex attaches
// to any process that listens there.
const (
	codexHome  = ".codex"
	controlDir = "app-server-control"
	control    = "app-server-control.sock"
)

// ControlPath is the control socket of the codex in a home.
func ControlPath(home string) string { return filepath.Join(home, codexHome, controlDir, control) }

// Home is the home of a user, in which the user may change everything at any time. Root works there with the user's
// rights to files (setfsuid(2)), so that no link leads it where the user could not go.
type Home struct {
	Dir      string
	UID, GID int
}

// mode is the mode of codex's directories.
const mode = 0o700

// Link puts a link to the socket in the place of codex's control socket, and returns the directories that it has made,
// the outermost first.
func (h Home) Link(socket string) (made []string, err error) {
	err = h.as(func() error {
		dir, err := openDir(unix.AT_FDCWD, h.Dir)
		if err != nil {
			return fmt.Errorf("cannot use the home: %w", err)
		}
		defer func() { _ = unix.Close(dir) }()
		at := h.Dir
		for _, name := range []string{codexHome, controlDir} {
			at = filepath.Join(at, name)
			next, isNew, err := makeDir(dir, name)
			if err != nil {
				return fmt.Errorf("cannot use %s: %w", at, err)
			}
			_ = unix.Close(dir)
			if dir = next; isNew {
				made = append(made, at)
			}
		}
		if err := clearPlace(dir, filepath.Join(at, control), socket); err != nil {
			return err
		}
		if err := unix.Symlinkat(socket, dir, control); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("cannot make the link %s: %w", filepath.Join(at, control), err)
		}
		return nil
	})
	return made, err
}

// Unlink removes the link to the socket, and of the directories in made those that are empty. Anything else that lies
// there stays.
func (h Home) Unlink(socket string, made []string) error {
	return h.as(func() error {
		dir, err := openDir(unix.AT_FDCWD, filepath.Dir(ControlPath(h.Dir)))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot look for the link: %w", err)
		}
		defer func() { _ = unix.Close(dir) }()
		if target, err := readLink(dir, control); err == nil && target == socket {
			if err := unix.Unlinkat(dir, control, 0); err != nil {
				return fmt.Errorf("cannot remove the link %s: %w", ControlPath(h.Dir), err)
			}
		}
		for i := len(made) - 1; i >= 0; i-- {
			if made[i] != filepath.Join(h.Dir, codexHome) && made[i] != filepath.Join(h.Dir, codexHome, controlDir) {
				continue
			}
			err := unix.Rmdir(made[i])
			if err != nil && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("cannot remove %s: %w", made[i], err)
			}
		}
		return nil
	})
}

// Linked reports whether the control socket of codex is the link to the socket, and if not describes the thing that
// lies there.
func (h Home) Linked(socket string) (linked bool, instead string) {
	instead = "nothing"
	err := h.as(func() error {
		target, err := os.Readlink(ControlPath(h.Dir))
		switch {
		case err == nil && target == socket:
			linked = true
		case err == nil:
			instead = "a link to " + target
		case errors.Is(err, unix.EINVAL):
			instead = "something else"
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		return nil
	})
	if err != nil {
		instead = "unknown: " + err.Error()
	}
	return linked, instead
}

// as calls f on a thread that has the user's rights to files. Our own user needs no change.
func (h Home) as(f func() error) error {
	if os.Geteuid() != 0 || h.UID == 0 {
		return f()
	}
	done := make(chan error, 1)
	groups := h.groups()
	go func() {
		runtime.LockOSThread() // and not unlocked: the thread ends with the goroutine
		// unix.Setgroups is for this thread, unlike syscall.Setgroups.
		if err := errors.Join(unix.Setgroups(groups), unix.Setfsgid(h.GID), unix.Setfsuid(h.UID)); err != nil {
			done <- err
			return
		}
		// The kernel reports no failure of setfsuid(2), but the user that is in force.
		if now, err := unix.SetfsuidRetUid(-1); err != nil || now != h.UID {
			done <- errors.New("cannot take the rights of the user")
			return
		}
		done <- f()
	}()
	return <-done
}

// groups are the groups of the user, in place of ours.
func (h Home) groups() []int {
	list := []int{h.GID}
	if u, err := user.LookupId(strconv.Itoa(h.UID)); err == nil {
		ids, _ := u.GroupIds()
		for _, id := range ids {
			if n, err := strconv.Atoi(id); err == nil {
				list = append(list, n)
			}
		}
	}
	return list
}

// openDir opens a directory; a link in its path that the kernel makes (proc(5)) leads nowhere.
func openDir(at int, path string) (int, error) {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(at, path, how)
	if err != nil {
		return -1, err
	}
	return fd, nil
}

func makeDir(at int, name string) (fd int, isNew bool, err error) {
	switch err := unix.Mkdirat(at, name, mode); {
	case err == nil:
		isNew = true
	case !errors.Is(err, unix.EEXIST):
		return -1, false, err
	}
	fd, err = openDir(at, name)
	return fd, isNew, err
}

// clearPlace removes the files of an earlier codex in the place of the control socket. It refuses while something
// listens there.
func clearPlace(dir int, path, socket string) error {
	var st unix.Stat_t
	err := unix.Fstatat(dir, control, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	kind := st.Mode & unix.S_IFMT
	if target, err := readLink(dir, control); err == nil && target == socket {
		return nil
	}
	if kind != unix.S_IFLNK && kind != unix.S_IFSOCK {
		return fmt.Errorf("%s is neither a socket nor a link: move it away", path)
	}
	if kind == unix.S_IFSOCK && listens(dir) {
		return fmt.Errorf("an app-server of codex listens on %s: end it, then enable again", path)
	}
	return unix.Unlinkat(dir, control, 0)
}

// listens connects with our own rights: the kernel checks those to files on this thread alone. So it connects to the
// user's own socket, and to none that a link leads to.
func listens(dir int) bool {
	const bound = time.Second
	fd, err := unix.Openat(dir, control, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return false
	}
	conn, err := net.DialTimeout("unix", fmt.Sprintf("/proc/self/fd/%d", fd), bound)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

func readLink(dir int, name string) (string, error) {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, target)
	if err != nil {
		return "", err
	}
	return string(target[:n]), nil
}
