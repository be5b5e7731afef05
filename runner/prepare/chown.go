package prepare

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// batch is how many names of a directory are read at a time.
const batch = 256

// maxDepth bounds the directories of a tree inside each other, and so the open files here. It is more than most paths
// have.
const maxDepth = 500

// give gives a tree to owner. It changes nothing if the root of the tree belongs to owner, as it gives the root last.
func give(d dir, owner owner) error {
	has, err := ownerOf(d.File)
	if err != nil || has == owner {
		return err
	}
	return gift{to: owner}.all(d, "", 1)
}

// gift gives a tree to an owner. The tree may hold anything that a session or a build can make; so no link is followed,
// and each directory is opened relative to the one above it. Nothing of another user is in the tree twice: hard links
// do not lead out of a mount (link(2)), and a slot is one.
type gift struct {
	to    owner
	plain bool // refuse other things than files, directories and links
	drop  bool // remove other things than files, directories and links
}

// all gives the entries of a directory and the directory itself. at is its path in the tree.
func (g gift) all(d dir, at string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%.100q… has more than %d directories inside each other", at, maxDepth)
	}
	for {
		entries, err := d.ReadDir(batch)
		for _, entry := range entries {
			if err := g.entry(d, entry, filepath.Join(at, entry.Name()), depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return chownAt(d, "", g.to)
		}
		if err != nil {
			return err
		}
	}
}

func (g gift) entry(d dir, entry os.DirEntry, at string, depth int) error {
	if !entry.IsDir() {
		kind := entry.Type()
		odd := !kind.IsRegular() && kind != fs.ModeSymlink
		switch {
		case odd && g.plain:
			return fmt.Errorf("%.200q is no file, directory or link", at)
		case odd && g.drop:
			return d.remove(entry.Name())
		}
		return chownAt(d, entry.Name(), g.to)
	}
	sub, err := d.sub(entry.Name())
	if err != nil {
		return err
	}
	defer sub.Close()
	return g.all(sub, at, depth+1)
}

// chownAt changes the owner of an entry of d, or of d itself if name is empty (AT_EMPTY_PATH).
func chownAt(d dir, name string, owner owner) error {
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_EMPTY_PATH
	if err := unix.Fchownat(int(d.Fd()), name, owner.uid, owner.gid, flags); err != nil {
		return &os.PathError{Op: "chown", Path: d.Name() + "/" + name, Err: err}
	}
	return nil
}
