package prepare

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// batch is how many names of a directory are read at a time.
const batch = 256

// give gives a tree to owner. The tree may hold anything that a session can make; so no link is followed, and each
// directory is opened relative to the one above it. A tree whose root belongs to owner is left as it is, as the root is
// given last. Nothing of another user is in the tree twice: hard links do not lead out of a mount (link(2)), and a
// slot is one.
func give(d dir, owner owner) error {
	has, err := ownerOf(d.File)
	if err != nil || has == owner {
		return err
	}
	return giveAll(d, owner)
}

func giveAll(d dir, owner owner) error {
	for {
		entries, err := d.ReadDir(batch)
		for _, entry := range entries {
			if err := giveEntry(d, entry, owner); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return chownAt(d, "", owner)
		}
		if err != nil {
			return err
		}
	}
}

func giveEntry(d dir, entry os.DirEntry, owner owner) error {
	if !entry.IsDir() {
		return chownAt(d, entry.Name(), owner)
	}
	sub, err := d.sub(entry.Name())
	if err != nil {
		return err
	}
	defer sub.Close()
	return giveAll(sub, owner)
}

// chownAt changes the owner of an entry of d, or of d itself if name is empty (AT_EMPTY_PATH).
func chownAt(d dir, name string, owner owner) error {
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_EMPTY_PATH
	if err := unix.Fchownat(int(d.Fd()), name, owner.uid, owner.gid, flags); err != nil {
		return &os.PathError{Op: "chown", Path: d.Name() + "/" + name, Err: err}
	}
	return nil
}
