package worktree

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The bounds of the changes of a work tree.
const (
	MaxFiles = 20_000
	MaxBytes = 256 << 20
)

// status is the state of a work tree.
type status struct {
	head     string   // the commit, "" if there is none yet
	tracked  []string // changed files that git knows
	added    []string // files that git does not know, and does not ignore
	unmerged []string // files with conflicts
	modules  []string // submodules with changes inside
	nested   []string // repositories that git does not know
}

// changes counts the changes that a snapshot has.
func (s status) changes() int { return len(s.tracked) + len(s.added) }

// status reads the state of the work tree.
func (t Tree) status(ctx context.Context) (s status, err error) {
	out, err := t.git(ctx, nil, nil, "status", "--porcelain=v2", "-z", "--branch", "--untracked-files=all",
		"--no-renames",
		"--ignore-submodules=none")
	if err != nil {
		return s, foreign(err)
	}
	for record := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		s.add(string(record))
	}
	return s, nil
}

// add reads a record of git status (porcelain format version 2).
func (s *status) add(record string) {
	kind, rest, _ := strings.Cut(record, " ")
	switch kind {
	case "#":
		if head, ok := strings.CutPrefix(rest, "branch.oid "); ok && head != "(initial)" {
			s.head = head
		}
	case "1":
		if f := strings.SplitN(rest, " ", 8); len(f) == 8 {
			s.change(f[0], f[1], f[7])
		}
	case "u":
		if f := strings.SplitN(rest, " ", 10); len(f) == 10 {
			s.unmerged = append(s.unmerged, f[9])
		}
	case "?":
		if strings.HasSuffix(rest, "/") {
			s.nested = append(s.nested, rest)
		} else {
			s.added = append(s.added, rest)
		}
	}
}

// change adds a file that git knows. A submodule, of which sub is S and flags of its commit, its changes and its new
// files, counts if its commit is another one.
func (s *status) change(xy, sub, name string) {
	if strings.HasPrefix(sub, "S") && (strings.Contains(sub, "M") || strings.Contains(sub, "U")) {
		s.modules = append(s.modules, name)
		if xy[0] == '.' && !strings.Contains(sub, "C") {
			return
		}
	}
	s.tracked = append(s.tracked, name)
}

// check refuses a state of which no snapshot is made.
func (s status) check(top string) error {
	if len(s.unmerged) > 0 {
		return fmt.Errorf("git has conflicts in %q: resolve them (git add), or leave the merge (git merge --abort)",
			s.unmerged[0])
	}
	if n := s.changes(); n > MaxFiles {
		return fmt.Errorf("%d changed and new files are more than %d: %s", n, MaxFiles, lessen)
	}
	var bytes int64
	for _, names := range [][]string{s.tracked, s.added} {
		for _, name := range names {
			if info, err := os.Lstat(filepath.Join(top, name)); err == nil && !info.IsDir() {
				bytes += info.Size()
			}
		}
	}
	if bytes > MaxBytes {
		return fmt.Errorf("the changed and new files have %d bytes, more than %d: %s", bytes, MaxBytes, lessen)
	}
	return nil
}

// lessen is the remedy for too many changes.
const lessen = "name files that the command does not need in .gitignore, commit them, or run the commit alone with " +
	"--clean"
