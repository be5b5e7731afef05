package snapshot

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Files copies each file of the snapshot into Target, as the owner's: by a reference where the file system has them
// (FICLONE), else byte by byte. Hard links in the snapshot become files of their own.
func (c Copy) Files() error {
	return copyDir(c.Snapshot, c.Target, c.Owner, 0)
}

// maxDepth bounds the directories inside each other, and so the open files here.
const maxDepth = 500

func copyDir(from, to string, owner Owner, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%.200q has more than %d directories inside each other", from, maxDepth)
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := copyEntry(filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name()), owner, depth); err != nil {
			return err
		}
	}
	return finish(from, to, owner)
}

func copyEntry(from, to string, owner Owner, depth int) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	switch {
	case info.IsDir():
		if err := os.Mkdir(to, 0o700); err != nil {
			return err
		}
		return copyDir(from, to, owner, depth+1)
	case info.Mode()&os.ModeSymlink != 0:
		link, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return errors.Join(os.Symlink(link, to), os.Lchown(to, owner.UID, owner.GID))
	case info.Mode().IsRegular():
		return errors.Join(copyFile(from, to), finish(from, to, owner))
	default:
		return fmt.Errorf("%.200q is no file, directory or link", from)
	}
}

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if unix.IoctlFileClone(int(target.Fd()), int(source.Fd())) != nil {
		_, err = io.Copy(target, source) // copy_file_range(2)
	}
	return errors.Join(err, target.Close())
}

// finish gives a copy the owner, the mode and the times of the original. Programs that build compare times.
func finish(from, to string, owner Owner) error {
	var st unix.Stat_t
	if err := unix.Lstat(from, &st); err != nil {
		return err
	}
	return errors.Join(os.Lchown(to, owner.UID, owner.GID), os.Chmod(to, os.FileMode(st.Mode&0o777)),
		unix.UtimesNanoAt(unix.AT_FDCWD, to, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW))
}
