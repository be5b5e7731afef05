package patch

import (
	"fmt"
	"io/fs"
	"os"
)

// A linkChecker refuses faults that only the tree shows: a symbolic link that is moved, and one that the patch does not
// mark as a link.
type linkChecker struct {
	tree *os.Root
	is   map[string]bool // by the path: whether the parts so far left a symbolic link there
}

// checkLinks checks all parts in their order: a later part may change files of an earlier one.
func (p *Patch) checkLinks(tree *os.Root) error {
	c := linkChecker{tree: tree, is: map[string]bool{}}
	for i := range p.Files {
		if err := c.part(&p.Files[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *linkChecker) part(f *File) error {
	was := c.isLink(f)
	var err error
	if was && f.New != "" {
		err = c.check(f)
	}
	switch {
	case f.New == "":
		c.is[f.Old] = false
	case f.NewMode != "":
		c.is[f.New] = f.NewMode == symlinkMode
	default:
		c.is[f.New] = was
	}
	return err
}

// isLink reports whether the file before the change is a symbolic link. git takes a file that is moved from the tree,
// whatever other parts do with it, and refuses the patch of one that cannot be examined, as one beyond a link.
func (c *linkChecker) isLink(f *File) bool {
	if f.Old == "" {
		return false
	}
	if is, changed := c.is[f.Old]; changed && f.Old == f.New {
		return is
	}
	info, err := c.tree.Lstat(f.Old)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// check checks the change of a symbolic link.
func (c *linkChecker) check(f *File) error {
	switch {
	case len(f.Hunks) > 0 && f.NewMode == symlinkMode:
		return nil // Parse has checked the target
	case len(f.Hunks) > 0 || f.Binary:
		return &Error{Reason: LinkLeaves, File: f.Path(), Line: f.Line,
			Text:   "it is a symbolic link, and the patch does not say so",
			Remedy: "make the patch with `git diff`, which writes its mode, 120000"}
	case f.Old == f.New:
		return nil
	}
	target, err := c.tree.Readlink(f.Old)
	if err != nil {
		return fmt.Errorf("cannot read the symbolic link %q: %w", f.Old, err)
	}
	return checkTarget(f, f.Line, target)
}
