package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Open opens the directory of a toolchain, to be mounted or looked at. The owner of a home can put any file
// there, so no link is followed: the opened directory is at that very path. The error has the remedy. A directory that
// does not exist is fs.ErrNotExist.
func (t Toolchain) Open() (*os.File, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, t.Dir, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, fmt.Errorf("%s is or goes through a symbolic link: name the directory itself, and leave links out",
			t.Dir)
	case errors.Is(err, unix.ENOTDIR):
		return nil, fmt.Errorf("%s is no directory: name the directory of the toolchain", t.Dir)
	case errors.Is(err, unix.ENOENT):
		return nil, &goneError{t.Dir}
	case err != nil:
		return nil, fmt.Errorf("cannot open %s: %w", t.Dir, err)
	}
	dir := os.NewFile(uintptr(fd), t.Dir)
	if err := t.check(fd); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}

// goneError is about a directory that does not exist.
type goneError struct{ dir string }

func (e *goneError) Error() string {
	return e.dir + " is not there: install the toolchain again, or take it out of toolchains of [sandbox] in runner.toml"
}

func (*goneError) Is(err error) bool { return err == fs.ErrNotExist }

// fuse is the type of file systems that a user can serve (FUSE_SUPER_MAGIC of statfs(2)): every look at one can hang.
const fuse = 0x65735546

// all is the mode for every user of a directory with programs that a session, a user of its own, can run.
const all = 0o005

func (t Toolchain) check(fd int) error {
	var st unix.Stat_t
	var system unix.Statfs_t
	if err := errors.Join(unix.Fstat(fd, &st), unix.Fstatfs(fd, &system)); err != nil {
		return fmt.Errorf("cannot look at %s: %w", t.Dir, err)
	}
	switch {
	case t.Hidden() && system.Type == fuse:
		return fmt.Errorf("%s is on a file system of FUSE, which can hang: move the toolchain", t.Dir)
	case st.Mode&all != all:
		return fmt.Errorf("%s may not be read by others, as sessions are: chmod -R o+rX %[1]s", t.Dir)
	}
	return nil
}

// OpenAs is Open as a user who has to own the directory: it opens nothing that the user cannot reach. It is for root.
func (t Toolchain) OpenAs(account Account) (*os.File, error) {
	if account.UID == 0 {
		return nil, errors.New("root has no toolchains of its own: name them in toolchains of [sandbox] in runner.toml")
	}
	dir, err := as(account, t.Open)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	if st.Uid != uint32(account.UID) {
		return nil, errors.Join(fmt.Errorf("%s belongs to the user %d, and not to the one of the session: chown it",
			t.Dir,
			st.Uid), dir.Close())
	}
	return dir, nil
}
