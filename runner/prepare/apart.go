package prepare

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"codex-proxy/runner/paths"
)

// makeApart makes a directory, if it is not there. Its files lie in another part of the disk than the files of its
// siblings. ext4 gives no inode to a new file for minutes after it was free, and looks at each of them again for every
// file that is made in their part: after the end of a session with many files, one beside it would take ten times as
// long to make as many. The name decides on the part, so a new one is best.
func makeApart(path string) error {
	parent := filepath.Dir(path)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	spread(parent)
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// topDir is FS_TOPDIR_FL of ioctl_iflags(2): ext4 spreads the directories below.
const topDir = 0x20000

// spread sets topDir of a directory. Other file systems refuse it, and need it not.
func spread(path string) {
	dir, err := os.Open(path)
	if err != nil {
		return
	}
	defer dir.Close()
	fd := int(dir.Fd())
	if flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS); err == nil && flags&topDir == 0 {
		_ = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(flags|topDir))
	}
}

// makeTree makes the tree of a slot, if it is not there. It removes the trees of other sessions that a kill has kept
// from their name.
func makeTree(slot, id string) error {
	tree := filepath.Join(slot, paths.Tree)
	if _, err := os.Lstat(tree); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	left, err := filepath.Glob(filepath.Join(slot, newTree+"*"))
	if err != nil {
		return err
	}
	for _, dir := range left { // they are empty
		if err := os.Remove(dir); err != nil {
			return err
		}
	}
	anew := filepath.Join(slot, newTree+id)
	if err := makeApart(anew); err != nil {
		return err
	}
	return os.Rename(anew, tree)
}

// newTree begins the name of a tree until it is made.
const newTree = "new-"
