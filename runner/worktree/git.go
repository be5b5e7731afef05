// Package worktree takes the changes of a caller's work tree that are not committed into a session, and brings the
// changes of a session back there.
//
// It runs git as the caller's own shell would, with the caller's settings: an ignored file is one that the caller's git
// ignores, and a filter of the repository runs, as with git status and git add. git refuses the repository of another
// user, whose settings could name any program (safe.directory of git-config(1)). No hook runs, no monitor of the file
// system, and no program for diffs.
package worktree

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"codex-proxy/runner/workspace"
)

// Tree is a caller's work tree.
type Tree struct {
	Top string // its top directory
}

// fixed are settings that count before the settings of the caller.
var fixed = []string{
	"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.untrackedCache=false", "core.splitIndex=false",
	"core.safecrlf=false", "core.quotePath=true", "add.ignoreErrors=false", "apply.ignoreWhitespace=no",
	"i18n.commitEncoding=UTF-8", "gc.auto=0", "maintenance.auto=false",
}

// kept are the variables of git that stay as the caller has them. Others, as a hook of git has them, could name another
// repository or index.
var kept = []string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_AUTHOR_NAME",
	"GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"}

// environment is the environment of the caller's git, with more variables.
func environment(more []string) []string {
	all := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return strings.HasPrefix(name, "GIT_") && !slices.Contains(kept, name)
	})
	return append(append(all, "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0"), more...)
}

// errorBytes is how much of git's standard error an error has.
const errorBytes = 4 << 10

// git runs git in the top directory, and returns its standard output. A git that fails is a *workspace.GitError.
func (t Tree) git(ctx context.Context, env []string, stdin []byte, args ...string) ([]byte, error) {
	var all []string
	for _, c := range fixed {
		all = append(all, "-c", c)
	}
	cmd := exec.CommandContext(ctx, "git", append(all, args...)...)
	cmd.Dir, cmd.Env = t.Top, environment(env)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		text := stderr.Bytes()
		return stdout.Bytes(), &workspace.GitError{
			Args: args, Stderr: string(text[max(0, len(text)-errorBytes):]), Err: err,
		}
	}
	return stdout.Bytes(), nil
}

// line is git for an output of one line.
func (t Tree) line(ctx context.Context, env []string, args ...string) (string, error) {
	out, err := t.git(ctx, env, nil, args...)
	return strings.TrimSuffix(string(out), "\n"), err
}

// ErrForeign means that the repository belongs to another user, and git does not use it.
var ErrForeign = errors.New("it belongs to another user, whose settings would run programs as you: " +
	"do this as that user, or trust them (git config --global --add safe.directory DIR)")

// foreign is err, or ErrForeign if that is why git has failed.
func foreign(err error) error {
	if failed, ok := errors.AsType[*workspace.GitError](err); ok &&
		strings.Contains(failed.Stderr, "dubious ownership") {
		return ErrForeign
	}
	return err
}
