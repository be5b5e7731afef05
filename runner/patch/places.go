package patch

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// checkPlaces refuses a patch of a file in a place where git would take a directory for a submodule, accept the patch
// and leave a part of it undone: beyond a symbolic link, or where the tree has a directory with other files than the
// patch's. It reports whether a directory is where the patch leaves a file, so that it cannot have been applied
// already.
func (p *Patch) checkPlaces(tree *os.Root) (directory bool, err error) {
	for i := range p.Files {
		f := &p.Files[i]
		for _, name := range slices.Compact([]string{f.Old, f.New}) {
			if name == "" {
				continue
			}
			if link := p.linkBefore(tree, name); link != "" {
				return false, misplaced(f, name, fmt.Sprintf("it is beyond a symbolic link, %q", link))
			}
			info, err := tree.Lstat(name)
			if err != nil || !info.IsDir() {
				continue // git reports why it cannot examine the name
			}
			if err := p.checkDirectory(tree, f, name); err != nil {
				return false, err
			}
			directory = directory || name == f.New
		}
	}
	return directory, nil
}

func misplaced(f *File, name, text string) *Error {
	return &Error{Reason: DoesNotApply, File: name, Line: f.Line, Text: text,
		Remedy: "make the patch against the commit that it is applied to"}
}

// linkBefore is the first directory of a name that is a symbolic link in the tree, and stays one with the patch.
func (p *Patch) linkBefore(tree *os.Root, name string) string {
	for i, c := range name {
		if c != '/' {
			continue
		}
		info, err := tree.Lstat(name[:i])
		if err != nil {
			return ""
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			if slices.ContainsFunc(p.Files, func(f File) bool { return f.Old == name[:i] && f.New != f.Old }) {
				return ""
			}
			return name[:i]
		}
	}
	return ""
}

// checkDirectory refuses the change of a file, named name, that is a directory: one with files that the patch does not
// have, or an empty one that the patch takes away.
func (p *Patch) checkDirectory(tree *os.Root, f *File, name string) error {
	files, others := 0, 0
	err := fs.WalkDir(tree.FS(), name, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files++
		if slices.ContainsFunc(p.Files, func(f File) bool { return f.Old == path || f.New == path }) {
			return nil
		}
		others++
		return fs.SkipAll
	})
	switch {
	case err != nil:
		return fmt.Errorf("cannot examine %q: %w", name, err)
	case others > 0, files == 0 && name == f.Old:
		return misplaced(f, name, "it is a directory in the tree")
	}
	return nil
}
