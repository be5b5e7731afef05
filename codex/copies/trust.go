package copies

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"codex-proxy/internal/reach"

	"golang.org/x/sys/unix"
)

// InPlaceError is the reason why a program has no copy. It runs where it is, then.
type InPlaceError struct {
	Reason string
	Steady bool // nothing can replace the program there
}

func (e *InPlaceError) Error() string { return e.Reason }

func inPlace(format string, args ...any) error {
	return &InPlaceError{Reason: fmt.Sprintf(format, args...)}
}

// trusted is the reason against a copy of the program: another user than root could change it, or other users may not
// run it. A copy would then lend the word of root to another user, or open a closed file.
func trusted(program string, owner int) error {
	for at := program; ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		err = rootsAlone(at, info, owner)
		switch {
		case err != nil:
			return err
		case info.Mode()&0o001 == 0, at == program && info.Mode()&0o004 == 0:
			return inPlace("only some users may use %s: chmod o+rx it", at)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// rootsAlone is the reason against a copy of a file or directory: another user than root could change it.
func rootsAlone(at string, info fs.FileInfo, owner int) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return errors.New("the file system has no owners")
	case stat.Uid != 0 && int(stat.Uid) != owner:
		return inPlace("%s belongs to the user %s, and not to root: install codex as root "+
			"(`npm install -g @openai/codex`), or chown it", at, reach.UserName(stat.Uid))
	case info.Mode()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0:
		return inPlace("all users may write to %s: chmod o-w it", at)
	case info.Mode()&0o020 != 0 && !trustedGroup(stat.Gid) && owner == 0:
		return inPlace("the group %s may write to %s: chmod g-w it", reach.GroupName(stat.Gid), at)
	}
	return nil
}

// trustedGroup reports whether the members of a group may write to directories of programs anyway: that of root, and
// Debian's staff, to which /usr/local belongs on systems that were installed long ago.
func trustedGroup(gid uint32) bool { return gid == 0 || reach.GroupName(gid) == "staff" }

// mounted is the reason against a copy in the mounts of the program and of the store.
func mounted(program, dir string) error {
	var source, store unix.Statfs_t
	if err := errors.Join(unix.Statfs(program, &source), unix.Statfs(dir, &store)); err != nil {
		return err
	}
	switch {
	case source.Flags&unix.ST_RDONLY != 0:
		return &InPlaceError{program + " is on a read-only file system: nothing replaces it there", true}
	case store.Flags&unix.ST_NOEXEC != 0:
		return inPlace("the file system of %s is mounted noexec: mount it without", dir)
	}
	return nil
}

// ours is the fault of a file or directory of the store that others than its owner may have changed.
func ours(path string, owner int) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) != owner || info.Mode()&0o022 != 0 || info.Mode()&fs.ModeSymlink != 0 {
		return fmt.Errorf("others than root may have changed %s", path)
	}
	return nil
}

// identity changes when a program, or the file with its version, is written or replaced. Only root can set all of it
// back, by the clock.
func identity(program string) (string, error) {
	about, err := statusOf(filepath.Join(filepath.Dir(filepath.Dir(program)), packageFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
		return "", err
	}
	file, err := statusOf(program)
	return strings.TrimSpace(file + " " + about), err
}

func statusOf(file string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d:%d %d %d.%09d %d.%09d", st.Dev, st.Ino, st.Size, st.Mtim.Sec, st.Mtim.Nsec, st.Ctim.Sec,
		st.Ctim.Nsec), nil
}
