package sessions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"codex-proxy/internal/listing"
	"codex-proxy/runner/worktree"
)

// Changes says whether a new session has the changes of a directory that are not committed.
type Changes string

// The ways.
const (
	ChangesLeft    Changes = ""        // no, and Run reports that there are some
	ChangesClean   Changes = "clean"   // no
	ChangesTaken   Changes = "dirty"   // yes, or an error
	ChangesOffered Changes = "offered" // yes, if the commit of the directory is meant; Run reports them
)

// ErrNoTree means that a source has no work tree whose changes could be taken along.
var ErrNoTree = errors.New("only a directory with a work tree has changes: leave dirty out")

// snapshot takes the changes of the work tree top, or returns nil.
func (s Source) snapshot(ctx context.Context, top string) (*worktree.Snapshot, error) {
	if s.Changes != ChangesTaken && s.Changes != ChangesOffered {
		return nil, nil
	}
	_, err := os.Stat(filepath.Join(top, ".git"))
	if err != nil && s.Changes == ChangesOffered {
		return nil, nil //nolint:nilerr // it is bare
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", s.Name, s.Where, ErrNoTree)
	}
	taken, err := worktree.Tree{Top: top}.Snapshot(ctx)
	if errors.Is(err, worktree.ErrForeign) && s.Changes == ChangesOffered {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot take the changes of %s %s along: %w", s.Name, s.Where, err)
	}
	return taken, nil
}

// reportChanges reports the changes that the command sees, if that is a default, or does not see.
func (r *Run) reportChanges(ctx context.Context, found Found) {
	taken := found.Snapshot
	switch {
	case taken == nil:
		if r.Changes != ChangesClean && r.New.Ref == "" && r.New.Patch == "" && found.Changed(ctx) {
			fmt.Fprintf(r.Stderr, "--repo %s has changes that are not committed, and the command runs without them "+
				"(--dirty takes them along)\n", r.Source)
		}
		return
	case taken.Changes > 0 && r.Changes == ChangesOffered:
		fmt.Fprintf(r.Stderr, "--repo %s: with %s that %s not committed (--clean runs the commit alone)\n", r.Source,
			count(taken.Changes, "change"), isAre(taken.Changes))
	}
	for _, name := range taken.Modules {
		fmt.Fprintf(r.Stderr, "--repo %s: the command gets no changes inside of the submodule %s\n", r.Source,
			listing.Printable(name))
	}
	for _, name := range taken.Nested {
		fmt.Fprintf(r.Stderr, "--repo %s: %s is another repository, and the command does not get it\n", r.Source,
			listing.Printable(name))
	}
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
