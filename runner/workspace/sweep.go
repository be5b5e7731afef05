package workspace

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// dirMode is the mode of the directories of a tree. The directory above the tree keeps other users out.
const dirMode = 0o755

// sweep removes from a tree all that is not as a checkout left it.
//
// Foreign code owned the tree. None of it runs any more, so nothing changes during the sweep, but anything may lie
// there: links out of the tree, directories without permissions, pipes, paths longer than PATH_MAX. Every operation
// names one entry of an open directory, and none follows a link.
type sweep struct {
	record  record           // how the files were left
	wanted  map[string]entry // files that may stay, if the record has the same
	dirs    map[string]bool  // directories that may stay
	left    map[string]bool  // directories above files of the record; nil unless files stay that it does not have
	kept    record
	removed int
}

// run sweeps the tree below top, but not its directory .git.
func (s *sweep) run(top *os.Root) error {
	s.kept = record{}
	return s.dir(top, "")
}

func (s *sweep) dir(dir *os.Root, prefix string) error {
	entries, _, err := list(dir)
	if err != nil {
		return err
	}
	return s.entries(dir, prefix, entries)
}

func (s *sweep) entries(dir *os.Root, prefix string, entries []fs.DirEntry) error {
	for _, e := range entries {
		if err := s.entry(dir, prefix+e.Name(), e.IsDir()); err != nil {
			return err
		}
	}
	return nil
}

func (s *sweep) entry(dir *os.Root, at string, isDir bool) error {
	name := path.Base(at)
	switch {
	case at == ".git":
		return nil
	case isDir && s.dirs[at]:
		return s.inside(dir, at)
	case !isDir && s.wanted[at].object != "" && s.record[at].entry == s.wanted[at]:
		now, ok, err := look(dir, name)
		if err != nil {
			return err
		}
		now.entry = s.wanted[at]
		if ok && now == s.record[at] {
			s.kept[at] = now
			return nil
		}
	case isDir && s.left[at] && s.wanted[at].object == "":
		return s.inside(dir, at)
	case s.left != nil && s.added(at):
		return nil
	}
	s.removed++
	return remove(dir, name, isDir)
}

// added reports whether an entry is neither of the last checkout nor of this one.
func (s *sweep) added(at string) bool {
	_, recorded := s.record[at]
	return !recorded && s.wanted[at].object == "" && !s.dirs[at]
}

// inside sweeps a directory that may stay. A directory with attributes goes: a default access list would give a user
// rights to every file that is made there.
func (s *sweep) inside(dir *os.Root, at string) error {
	name := path.Base(at)
	sub, err := openDir(dir, name, dirMode)
	if err != nil {
		return err
	}
	defer sub.Close()
	entries, odd, err := list(sub)
	if err != nil {
		return err
	}
	if odd {
		s.removed++
		return remove(dir, name, true)
	}
	return s.entries(sub, at+"/", entries)
}

// openDir opens the directory name, to which its owner may have left no right. A needless chmod(2) would copy it, if it
// is of a snapshot.
func openDir(dir *os.Root, name string, mode fs.FileMode) (*os.Root, error) {
	info, err := dir.Lstat(name)
	if err == nil && info.Mode() != mode|fs.ModeDir {
		err = dir.Chmod(name, mode)
	}
	if err != nil {
		return nil, err
	}
	return dir.OpenRoot(name)
}

// list returns the entries of a directory, and whether the directory itself has attributes.
func list(dir *os.Root) (entries []fs.DirEntry, odd bool, err error) {
	opened, err := dir.Open(".")
	if err != nil {
		return nil, false, err
	}
	defer opened.Close()
	entries, err = opened.ReadDir(-1)
	return entries, hasAttributes(int(opened.Fd())), err
}

// remove removes name from dir with whatever is below it. A directory inside is moved up into dir before its own
// content is removed, so that neither the number of open files nor the length of a path grows with the depth.
func remove(dir *os.Root, name string, isDir bool) error {
	if !isDir {
		return dir.Remove(name)
	}
	for queue := []string{name}; len(queue) > 0; {
		last := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		moved, err := empty(dir, last)
		if err == nil {
			err = dir.Remove(last)
		}
		if err != nil {
			return err
		}
		queue = append(queue, moved...)
	}
	return nil
}

// empty removes the files of a directory, and moves its directories up, next to it. It returns their new names.
func empty(dir *os.Root, name string) (moved []string, err error) {
	sub, err := openDir(dir, name, 0o700)
	if err != nil {
		return nil, err
	}
	defer sub.Close()
	entries, _, err := list(sub)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() {
			err = sub.Remove(e.Name())
		} else if err = sub.Chmod(e.Name(), 0o700); err == nil { // to move it changes its ".."
			up := ".removed-" + rand.Text()
			err = dir.Rename(path.Join(name, e.Name()), up)
			moved = append(moved, up)
		}
		if err != nil {
			return nil, err
		}
	}
	return moved, nil
}

// Empty removes all that lies in a tree, whatever that is. It runs as the owner of the tree, while no other process
// uses it.
func Empty(tree string) error {
	top, err := openTop(tree)
	if err != nil {
		return err
	}
	defer top.Close()
	if _, err := wipe(top); err != nil {
		return fmt.Errorf("cannot clear the workspace: %w", err)
	}
	return nil
}

// Remove removes a directory with all that lies in it, whatever that is. No link is followed. One that does not exist
// is no error.
func Remove(dir string) error {
	above, err := os.OpenRoot(filepath.Dir(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer above.Close()
	info, err := above.Lstat(filepath.Base(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return remove(above, filepath.Base(dir), info.IsDir())
}

// wipe removes all that lies in the tree.
func wipe(top *os.Root) (removed int, err error) {
	entries, _, err := list(top)
	for _, e := range entries {
		err = errors.Join(err, remove(top, e.Name(), e.IsDir()))
	}
	return len(entries), err
}

// above adds the directories above a file.
func above(dirs map[string]bool, file string) {
	for i := strings.LastIndexByte(file, '/'); i > 0 && !dirs[file[:i]]; i = strings.LastIndexByte(file[:i], '/') {
		dirs[file[:i]] = true
	}
}
