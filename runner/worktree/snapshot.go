package worktree

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"codex-proxy/runner/workspace"
)

// Snapshot is a commit of the changes of a work tree that are not committed, as `git add --all` and `git commit` would
// make it: with filters, and without ignored files. It is in a directory of its own, and not in the caller's
// repository.
type Snapshot struct {
	Base    string // the commit of the work tree, "" if it has none
	Commit  string // of the changes; Base if there are none
	Objects string // the directory with the objects that the repository lacks
	Changes int    // changed, new and removed files
	// Modules are submodules with changes inside, and Nested are repositories that git does not know. The commit has
	// neither.
	Modules, Nested []string

	scratch string
}

// Close removes the objects.
func (s *Snapshot) Close() {
	if s.scratch != "" {
		_ = os.RemoveAll(s.scratch)
	}
}

// Snapshot takes a snapshot of the work tree. It changes neither its files nor its index. The caller calls Close.
func (t Tree) Snapshot(ctx context.Context) (*Snapshot, error) {
	now, err := t.status(ctx)
	if err == nil {
		err = now.check(t.Top)
	}
	if err != nil {
		return nil, err
	}
	s := &Snapshot{Base: now.head, Commit: now.head, Modules: now.modules, Nested: now.nested}
	if now.changes() == 0 {
		return s, nil
	}
	if s.scratch, err = os.MkdirTemp("", "codex-runner-changes-"); err != nil {
		return nil, err
	}
	s.Objects = filepath.Join(s.scratch, "objects")
	if err := t.take(ctx, s, now); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// take makes the commit of the snapshot.
func (t Tree) take(ctx context.Context, s *Snapshot, now status) error {
	env, err := t.apart(ctx, s.scratch)
	if err != nil {
		return err
	}
	if _, err := t.git(ctx, env, nil, "add", "--update"); err != nil {
		return err
	}
	if len(now.added) > 0 {
		names := []byte(strings.Join(now.added, "\x00") + "\x00")
		if _, err := t.git(ctx, env, names, "--literal-pathspecs", "add", "--sparse", "--pathspec-from-file=-",
			"--pathspec-file-nul"); err != nil {
			return err
		}
	}
	tree, err := t.line(ctx, env, "write-tree")
	if err != nil {
		return err
	}
	if s.Base != "" {
		if before, err := t.line(ctx, nil, "rev-parse", s.Base+"^{tree}"); err != nil || before == tree {
			return err // the files only look changed
		}
	}
	s.Changes = now.changes()
	s.Commit, err = t.commit(ctx, env, tree, s.Base)
	return err
}

// apart returns the variables by which git works on a copy of the index and writes objects into the directory scratch.
func (t Tree) apart(ctx context.Context, scratch string) ([]string, error) {
	out, err := t.line(ctx, nil, "rev-parse", "--path-format=absolute", "--git-path", "index", "--git-path", "objects")
	if err != nil {
		return nil, err
	}
	index, objects, _ := strings.Cut(out, "\n")
	info := filepath.Join(scratch, "objects", "info")
	if err := os.MkdirAll(info, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(info, "alternates"), []byte(objects+"\n"), 0o600); err != nil {
		return nil, err
	}
	copied := filepath.Join(scratch, "index")
	err = copyIndex(index, copied)
	return []string{"GIT_INDEX_FILE=" + copied, "GIT_OBJECT_DIRECTORY=" + filepath.Join(scratch, "objects")}, err
}

// copyIndex copies an index, if there is one, with its time: git compares that with the times of the files to know
// which of them may have changed since (racy git).
func copyIndex(from, to string) error {
	info, err := os.Stat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return cmp.Or(os.WriteFile(to, data, 0o600), os.Chtimes(to, info.ModTime(), info.ModTime()))
}

// commit makes a snapshot of a tree. The same tree and base give the same commit at any time, so that it is sent once.
func (t Tree) commit(ctx context.Context, env []string, tree, base string) (string, error) {
	args, date := []string{"commit-tree", tree}, "0"
	if base != "" {
		var err error
		if date, err = t.line(ctx, nil, "show", "--no-patch", "--no-show-signature", "--format=%ct", base); err != nil {
			return "", err
		}
		args = append(args, "-p", base)
	}
	date = fmt.Sprintf("@%s +0000", date)
	for _, role := range []string{"AUTHOR", "COMMITTER"} {
		env = append(env, "GIT_"+role+"_NAME="+workspace.SnapshotName, "GIT_"+role+"_EMAIL="+workspace.SnapshotEmail,
			"GIT_"+role+"_DATE="+date)
	}
	out, err := t.git(ctx, env, []byte(workspace.SnapshotMessage), args...)
	return string(bytes.TrimSpace(out)), err
}
