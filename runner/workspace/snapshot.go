package workspace

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// A snapshot is a commit of changes that are not committed in the repository of a caller. Its parent is the commit that
// the caller has; it has none if the caller has none. These are its author and its message.
const (
	SnapshotName    = "codex-runner"
	SnapshotEmail   = "codex-runner@localhost"
	SnapshotMessage = "Changes that are not committed\n"
)

// ParseCommit returns the tree and the first parent of a commit, "" without one, and whether it is a snapshot. The
// commit is an object of git without its header (git cat-file commit).
func ParseCommit(object []byte) (tree, parent string, snapshot bool) {
	head, message, _ := bytes.Cut(object, []byte("\n\n"))
	author := "author " + SnapshotName + " <" + SnapshotEmail + "> "
	for line := range strings.Lines(string(head)) {
		line = strings.TrimSuffix(line, "\n")
		key, value, _ := strings.Cut(line, " ")
		switch {
		case key == "tree" && tree == "":
			tree = value
		case key == "parent" && parent == "":
			parent = value
		case strings.HasPrefix(line, author):
			snapshot = string(message) == SnapshotMessage
		}
	}
	return tree, parent, snapshot
}

// uncommit makes the parent of a snapshot the commit of the checkout, so that the changes are not committed there
// either.
func (m module) uncommit(ctx context.Context) error {
	object, err := m.git.run(ctx, nil, "cat-file", "commit", m.source.Commit)
	if err != nil {
		return err
	}
	_, parent, snapshot := ParseCommit(object)
	if !snapshot {
		return nil
	}
	head, tree := parent, []string{"read-tree", "-m", parent} // it keeps the index entries of equal files
	if parent == "" {
		head, tree = "ref: refs/heads/main", []string{"read-tree", "--empty"}
	}
	if _, err := m.git.run(ctx, nil, tree...); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(m.git.dir, "HEAD"), []byte(head+"\n"), 0o644); err != nil {
		return err
	}
	return m.refresh(ctx)
}

// refresh has the index learn the times of the files. Status 1: a file differs, perhaps from the start.
func (m module) refresh(ctx context.Context) error {
	_, err := m.git.run(ctx, nil, "update-index", "-q", "--refresh")
	if failed, ok := errors.AsType[*GitError](err); ok && failed.Status() == 1 {
		return nil
	}
	return err
}
