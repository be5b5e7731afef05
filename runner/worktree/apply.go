package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"codex-proxy/runner/patch"
	"codex-proxy/runner/workspace"
)

// CheckApply returns an error if no patch can be applied: there is no work tree, or it is one of another user, who
// could have a link lead out of it meanwhile.
func (t Tree) CheckApply(ctx context.Context) error {
	bare, err := t.line(ctx, nil, "rev-parse", "--is-bare-repository")
	if err == nil && bare == "true" {
		err = errors.New("it has no work tree: name a branch with --branch")
	}
	if err != nil {
		return fmt.Errorf("cannot apply changes to %s: %w", t.Top, foreign(err))
	}
	return nil
}

// Apply applies a patch to the files of the work tree, wholly or not at all, and not to the index. It returns how many
// files the patch changes, and whether they had its changes already. The patch may be anybody's: see package patch.
func (t Tree) Apply(ctx context.Context, text []byte) (files int, already bool, err error) {
	if err := t.CheckApply(ctx); err != nil {
		return 0, false, err
	}
	parsed, err := patch.Parse(text)
	if err != nil {
		return 0, false, err
	}
	tree, err := os.OpenRoot(t.Top)
	if err != nil {
		return 0, false, err
	}
	defer tree.Close()
	if err := t.writable(parsed); err != nil {
		return 0, false, err
	}
	result, err := parsed.Apply(ctx, runner{tree: t}, tree)
	return len(parsed.Files), result == patch.AppliedAlready, err
}

// writable refuses a patch in a directory where this user cannot write: git would find that out in the middle.
func (t Tree) writable(p *patch.Patch) error {
	for i := range p.Files {
		for _, name := range []string{p.Files[i].Old, p.Files[i].New} {
			if name == "" {
				continue
			}
			dir := filepath.Dir(filepath.Join(t.Top, name))
			for len(dir) > len(t.Top) && errors.Is(unix.Access(dir, unix.F_OK), unix.ENOENT) {
				dir = filepath.Dir(dir)
			}
			if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
				return fmt.Errorf("cannot write into %s: %w: make it writable", dir, err)
			}
		}
	}
	return nil
}

// runner is git in the work tree, with more variables.
type runner struct {
	tree Tree
	env  []string
}

// Run implements patch.Git.
func (r runner) Run(ctx context.Context, stdin []byte, args ...string) (patch.Output, error) {
	stdout, err := r.tree.git(ctx, r.env, stdin, args...)
	if failed, ok := errors.AsType[*workspace.GitError](err); ok && failed.Status() > 0 {
		return patch.Output{Status: failed.Status(), Stdout: stdout, Stderr: []byte(failed.Stderr)}, nil
	}
	return patch.Output{Stdout: stdout}, err
}
