package patch

import (
	"fmt"
	"strings"
)

// A Reason is why a patch is refused, in one word for programs.
type Reason string

// The reasons.
const (
	Malformed    Reason = "malformed"
	Empty        Reason = "empty"
	TooLarge     Reason = "too_large"
	LeavesTree   Reason = "leaves_tree"
	TouchesGit   Reason = "touches_git"
	LinkLeaves   Reason = "link_leaves_tree" // a symbolic link to somewhere outside of the tree
	Binary       Reason = "binary"
	Unsupported  Reason = "unsupported" // a mode that no file of a tree has, or a submodule
	DoesNotApply Reason = "does_not_apply"
)

// An Error is the reason why a patch is refused.
type Error struct {
	Reason Reason
	File   string // empty if it is about the whole patch
	Line   int    // of the patch; 0 if it is about the whole patch
	Hunk   string // the header of the hunk, if it is about one
	Text   string // the fault
	Remedy string
}

// Error is one line: place, fault, remedy.
func (e *Error) Error() string {
	var place []string
	if e.Line > 0 {
		place = append(place, fmt.Sprintf("line %d of the patch", e.Line))
	}
	if e.File != "" {
		place = append(place, fmt.Sprintf("file %q", e.File))
	}
	if e.Hunk != "" {
		place = append(place, fmt.Sprintf("hunk %q", e.Hunk))
	}
	if len(place) == 0 {
		place = append(place, "the patch")
	}
	return fmt.Sprintf("%s: %s: %s", strings.Join(place, ", "), e.Text, e.Remedy)
}

func sizes(of string, n, most int) string {
	return fmt.Sprintf("it has %d %s, more than %d", n, of, most)
}
