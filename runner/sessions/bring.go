package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"codex-proxy/internal/cli"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/outcome"
	"codex-proxy/runner/session"
	"codex-proxy/runner/worktree"
)

// bring brings the changes of a session into a repository of the caller.
type bring struct {
	message string // of the commit; "" names the commands
	tree    worktree.Tree
	stderr  io.Writer
	apply   bool   // to the files of the work tree
	branch  string // to make, or ""
}

// wanted reports whether there is something to bring.
func (b bring) wanted() bool { return b.apply || b.branch != "" }

// check returns an error about the repository that is known before a command runs.
func (b bring) check(ctx context.Context) error {
	if b.apply {
		if err := b.tree.CheckApply(ctx); err != nil {
			return err
		}
	}
	if b.branch == "" {
		return nil
	}
	return b.tree.CheckBranch(ctx, b.branch)
}

// changes brings the changes. A refusal changes nothing.
func (b bring) changes(ctx context.Context, s wire.Session, t *taken) error {
	t.report(b.stderr)
	if len(t.patch) == 0 {
		fmt.Fprintln(b.stderr, "the command changed nothing")
		return nil
	}
	if b.branch != "" {
		if err := b.makeBranch(ctx, s, t); err != nil {
			return kept(s, "make the branch "+b.branch, err)
		}
		fmt.Fprintf(b.stderr, "the branch %s has the changes (git switch %[1]s)\n", b.branch)
	}
	if !b.apply {
		return nil
	}
	files, already, err := b.tree.Apply(ctx, t.patch)
	switch {
	case err != nil:
		return kept(s, "apply the changes to "+b.tree.Top, err)
	case already:
		fmt.Fprintf(b.stderr, "%s has the changes already\n", b.tree.Top)
	default:
		fmt.Fprintf(b.stderr, "%s changed in %s (git diff shows the changes)\n", count(files, "file"), b.tree.Top)
	}
	return nil
}

// bringTo has the changes of the command brought into the repository that was found.
func (r *Run) bringTo(found Found) error {
	r.bring = bring{tree: worktree.Tree{Top: found.Dir}, stderr: r.Stderr, apply: r.Apply, branch: r.Branch}
	if found.Dir == "" && r.bring.wanted() {
		return fmt.Errorf("--repo %s is a URL, and --apply and --branch change a directory: clone it, and name the clone",
			r.Source)
	}
	return nil
}

// bringChanges brings the changes of a command that has succeeded. The session stays open if it could not be asked for
// them.
func (r *Run) bringChanges(ctx context.Context, a *attendance, s wire.Session, c wire.Command) (err error, open bool) {
	if !r.bring.wanted() {
		return nil, false
	}
	if c.Outcome.Word != outcome.Succeeded {
		fmt.Fprintln(r.Stderr, "the command did not succeed, and its changes are not taken")
		return nil, false
	}
	t, err := take(ctx, r.Client, s, r.Branch != "", func(n int) { a.begin(s.ID, n) })
	if err != nil {
		return fmt.Errorf("%w; the session stays open (codex-runner diff %s asks again, codex-runner cancel %[2]s closes it)",
			err, s.ID), true
	}
	return r.bring.changes(ctx, s, t), false
}

// kept is the error about changes that stay with the session.
func kept(s wire.Session, what string, err error) error {
	return cli.Exit(RunnerFailed, fmt.Errorf("cannot %s, and nothing was changed there: %w (codex-runner diff %s prints "+
		"the patch)", what, err, s.ID))
}

func (b bring) makeBranch(ctx context.Context, s wire.Session, t *taken) error {
	if t.base == "" {
		return errors.New("the session began without a commit: make a first one, and run again")
	}
	if s.Commit != t.base && t.begin == nil {
		return errors.New("the patch alone was kept, and not the changes that the session began with: run again with " +
			"--branch")
	}
	return b.tree.Branch(ctx, b.branch, t.base, []worktree.Commit{
		{Message: "Changes that were not committed\n\nThe session " + s.ID + " of codex-runner began with them.\n",
			Patch: t.begin, Tree: t.tree},
		{Message: cmp.Or(b.message, message(s)), Patch: t.patch},
	})
}

// The bounds of the message of a commit.
const (
	maxSubject  = 60
	maxCommands = 20
)

// message is the message of the commit with the changes of a session.
func message(s wire.Session) string {
	var lines []string
	for _, c := range s.Commands {
		if !session.IsDiff(c.Args) {
			lines = append(lines, commandLine(c.Args))
		}
	}
	var b strings.Builder
	subject := "no command"
	if len(lines) > 0 {
		subject = lines[len(lines)-1]
	}
	fmt.Fprintf(&b, "codex-runner: %s\n\nThe session %s of codex-runner changed the files with:\n\n",
		cut(subject, maxSubject), s.ID)
	for _, line := range lines[max(0, len(lines)-maxCommands):] {
		fmt.Fprintf(&b, "    %s\n", cut(line, 10*maxSubject))
	}
	return b.String()
}

// cut shortens a text to so many characters.
func cut(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}
