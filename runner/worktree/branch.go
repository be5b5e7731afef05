package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"codex-proxy/runner/patch"
)

// Commit is a commit to make: the one before it, with a patch.
type Commit struct {
	Message string
	Patch   []byte
	Tree    string // the tree that the patch has to lead to, or ""
}

// CheckBranch returns an error if no branch of that name can be made.
func (t Tree) CheckBranch(ctx context.Context, name string) error {
	if _, err := t.git(ctx, nil, nil, "check-ref-format", "refs/heads/"+name); err != nil || strings.HasPrefix(name, "-") {
		if ctx.Err() != nil {
			return err
		}
		return fmt.Errorf("%q is no name of a branch: use letters, digits, - and /", name)
	}
	out, err := t.line(ctx, nil, "for-each-ref", "--format=%(refname)", "refs/heads/"+name)
	if err != nil {
		return foreign(err)
	}
	if out != "" {
		return fmt.Errorf("there is a branch %s: name another one, or remove it (git branch -D %[1]s)", name)
	}
	for _, who := range []string{"GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"} {
		if _, err := t.git(ctx, nil, nil, "var", who); err != nil {
			return errors.New("git does not know who you are, and a commit has an author: set user.name and user.email " +
				"(git config --global user.email YOU@EXAMPLE.ORG)")
		}
	}
	return nil
}

// Branch makes a branch with commits on top of a commit of the repository, by the caller as their author. It changes no
// file of the work tree, nor its index. A commit without a change is left out.
func (t Tree) Branch(ctx context.Context, name, base string, commits []Commit) error {
	if err := t.CheckBranch(ctx, name); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "codex-runner-branch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	on := branch{t, []string{"GIT_INDEX_FILE=" + filepath.Join(scratch, "index")}}
	if _, err := on.git(ctx, on.env, nil, "read-tree", base); err != nil {
		return fmt.Errorf("the repository lacks the commit %s that the session began with: %w", base, err)
	}
	last := base
	for _, c := range commits {
		if len(c.Patch) == 0 {
			continue
		}
		if last, err = on.commit(ctx, last, c); err != nil {
			return err
		}
	}
	// The branch must not be there (git-update-ref(1)).
	_, err = t.git(ctx, nil, nil, "update-ref", "-m", "codex-runner", "refs/heads/"+name, last,
		strings.Repeat("0", len(last)))
	return err
}

// branch makes commits with an index of its own.
type branch struct {
	Tree
	env []string
}

// commit makes a commit on top of another.
func (b branch) commit(ctx context.Context, parent string, c Commit) (string, error) {
	parsed, err := patch.Parse(c.Patch)
	if err == nil {
		err = parsed.ApplyToIndex(ctx, runner{b.Tree, b.env})
	}
	if err != nil {
		return "", err
	}
	tree, err := b.line(ctx, b.env, "write-tree")
	if err != nil {
		return "", err
	}
	if c.Tree != "" && c.Tree != tree {
		return "", errors.New("the session shows other changes than those that it began with: use run --branch again, " +
			"in a new session")
	}
	out, err := b.git(ctx, b.env, []byte(c.Message), "commit-tree", "-p", parent, tree)
	return strings.TrimSpace(string(out)), err
}
