package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// ErrDiskFull reports that the file system of a workspace or mirror has no space or quota left. A second attempt fails
// as the first one did.
var ErrDiskFull = errors.New("no space is left on the disk: free some, or raise the bound")

// GitError is a command of git that failed.
type GitError struct {
	Args   []string // without "git" and its options
	Stderr string   // its last 4 KiB, in English
	Err    error    // of the process: an *exec.ExitError if git ended by itself
}

// Error names the command and git's own reason.
func (e *GitError) Error() string {
	reason := strings.TrimSpace(e.Stderr)
	if reason == "" {
		reason = e.Err.Error()
	}
	return fmt.Sprintf("git %s: %s", e.Args[0], reason)
}

// Unwrap returns the error of the process, and ErrDiskFull if the disk is the reason.
func (e *GitError) Unwrap() []error {
	for _, full := range []string{"No space left on device", "Disk quota exceeded"} {
		if strings.Contains(e.Stderr, full) {
			return []error{ErrDiskFull, e.Err}
		}
	}
	return []error{e.Err}
}

// Status is git's exit status, or -1 if it did not exit.
func (e *GitError) Status() int {
	var exit *exec.ExitError
	if errors.As(e.Err, &exit) {
		return exit.ExitCode()
	}
	return -1
}

// trusted is the configuration of every git that this package runs. git reads no other file, of the system or the user,
// and no variable of the caller, so that a hook, a filter or a monitor runs only if this list names it.
var trusted = []string{
	"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.untrackedCache=false", "core.attributesFile=/dev/null",
	"core.excludesFile=/dev/null", "core.autocrlf=false", "core.fileMode=true", "core.symlinks=true",
	"index.version=2", "gc.auto=0", "maintenance.auto=false",
	"safe.directory=*", // a mirror belongs to the user that fetches it
}

// Git runs one command of git in the top directory of a tree that Checkout has made, and returns its stdout. As the
// configuration of the tree is used, no foreign code may have run there since. A command that fails is a *GitError. The
// end of ctx kills git.
func Git(ctx context.Context, tree string, stdin []byte, args ...string) ([]byte, error) {
	return git{dir: filepath.Join(tree, ".git"), tree: tree}.run(ctx, stdin, args...)
}

// git runs git in one repository.
type git struct {
	dir    string   // the repository, an absolute path: $GIT_DIR; or "" without one
	tree   string   // its work tree, or "" without one
	config []string // name=value, in addition to trusted
	env    []string // in addition to the fixed ones
	bytes  int64    // how long a file that it writes may become; 0 without a bound
}

// run runs one command of git and returns its stdout. The end of ctx kills git and all that it started.
func (g git) run(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	var stdout bytes.Buffer
	err := g.pipe(ctx, stdin, &stdout, args...)
	return stdout.Bytes(), err
}

// pipe is run with a writer for stdout.
func (g git) pipe(ctx context.Context, stdin []byte, stdout io.Writer, args ...string) error {
	cmd := g.command(ctx, args)
	stderr := tail{limit: 4 << 10}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), stdout, &stderr
	err := cmd.Start()
	if err == nil {
		err = errors.Join(boundFiles(cmd.Process, g.bytes), cmd.Wait())
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return &GitError{Args: args, Stderr: string(stderr.data), Err: err}
	}
	return nil
}

func (g git) command(ctx context.Context, args []string) *exec.Cmd {
	var all []string
	for _, c := range append(trusted, g.config...) {
		all = append(all, "-c", c)
	}
	cmd := exec.CommandContext(ctx, "git", append(all, args...)...)
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=/nonexistent",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		// A repository may name a remote for missing objects, and the command that fetches them.
		"GIT_ALLOW_PROTOCOL=",
	}, g.env...)
	if cmd.Dir = "/"; g.dir != "" {
		cmd.Env = append(cmd.Env, "GIT_DIR="+g.dir)
	}
	if g.tree != "" {
		cmd.Dir, cmd.Env = g.tree, append(cmd.Env, "GIT_WORK_TREE="+g.tree)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	return cmd
}

// tail keeps the last bytes written to it.
type tail struct {
	data  []byte
	limit int
}

func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	t.data = t.data[max(0, len(t.data)-t.limit):]
	return len(p), nil
}
