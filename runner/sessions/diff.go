package sessions

import (
	"context"
	"fmt"
	"io"
	"os"

	"codex-proxy/internal/cli"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
	"codex-proxy/runner/workspace"
	"codex-proxy/runner/worktree"
)

// Diff is one command line that takes the changes of a session.
type Diff struct {
	Client         *client.Client
	Stdout, Stderr io.Writer
	Branch         string // to make with the changes; "" prints them as a patch
	Repo           string // of the branch; "" is the directory that the session was made from
	Message        string // of its commit; "" names the commands of the session
	// Execute, unless nil, executes the command of session.DiffOrder beside a command that runs, and returns its
	// output. Without it, the command is the next one of the session.
	Execute func(ctx context.Context, begin bool) (stdout, stderr []byte, err error)
}

// Run prints the changes of the session, or makes a branch of them.
func (d Diff) Run(ctx context.Context, id string) error {
	return Status(d.run(ctx, id), cli.Failure)
}

func (d Diff) run(ctx context.Context, id string) error {
	s, err := d.Client.Session(ctx, id)
	if err != nil {
		return err
	}
	to := bring{stderr: d.Stderr, branch: d.Branch, message: d.Message}
	if d.Branch != "" {
		if to.tree, err = d.tree(s); err == nil {
			err = to.check(ctx)
		}
		if err != nil {
			return err
		}
	}
	t, err := d.take(ctx, s)
	if err != nil {
		return err
	}
	if d.Branch != "" {
		return to.changes(ctx, s, t)
	}
	t.report(d.Stderr)
	_, err = d.Stdout.Write(t.patch)
	return err
}

func (d Diff) take(ctx context.Context, s wire.Session) (*taken, error) {
	begin := d.Branch != ""
	if d.Execute == nil {
		return take(ctx, d.Client, s, begin, nil)
	}
	stdout, stderr, err := d.Execute(ctx, begin)
	if err != nil {
		return nil, err
	}
	return read(s, stdout, stderr, begin)
}

// tree is the work tree that gets the branch.
func (d Diff) tree(s wire.Session) (worktree.Tree, error) {
	dir := d.Repo
	if dir == "" {
		dir = directoryOf(s)
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return worktree.Tree{}, fmt.Errorf("the session %s was made from no directory that is there: name the "+
				"repository that gets the branch with --repo", s.ID)
		}
	}
	dir, err := realPath(dir)
	if err != nil {
		return worktree.Tree{}, err
	}
	top, err := workspace.Top(dir)
	return worktree.Tree{Top: top}, err
}
