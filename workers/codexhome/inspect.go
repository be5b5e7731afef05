package codexhome

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"codex-proxy/codex/versions"
	"codex-proxy/internal/checkup"
)

// systemdPath is PATH of a unit that does not set its own (systemd.exec(5)).
const systemdPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"

// hidden are the directories that the unit does not see: ProtectHome= and PrivateTmp= in codex-worker@.service.
var hidden = []string{"/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/"}

// Program runs the codex of one worker outside of its unit, which may run meanwhile: as a user that cannot read the
// worker's home, without our environment.
type Program struct {
	codex
	worker *Worker
}

// Account is the user that runs codex.
type Account struct{ UID, GID uint32 }

// inspectLimit bounds each run of a Program: a check of the doctor runs it twice, and has checkup.Limit for both.
const inspectLimit = checkup.Limit/2 - time.Second

// Program finds the codex of the worker, unless it is copied: the copy that its unit runs. env is Environment= of its
// unit. Each run of it is bounded by 5 s. Errors are Problems.
func (w *Worker) Program(copied string, env []string, as Account) (*Program, error) {
	path := copied
	if copied == "" {
		var err error
		if path, err = findCodex(w, searchPath(env), npmPrefixes); err != nil {
			return nil, err
		}
	}
	for _, dir := range hidden {
		if strings.HasPrefix(path, dir) {
			return nil, w.problem("codex_path", fmt.Sprintf("the worker cannot see %s: its unit hides %s", path, dir),
				"install codex elsewhere, `npm install -g @openai/codex`")
		}
	}
	return &Program{worker: w, codex: codex{path: path, home: "/", dir: "/", limit: inspectLimit,
		as: &syscall.Credential{Uid: as.UID, Gid: as.GID}, env: env}}, nil
}

// searchPath is the last PATH of a unit's Environment=, or else systemd's.
func searchPath(env []string) string {
	path := systemdPath
	for _, kv := range env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = value
		}
	}
	return path
}

// Path is the native binary.
func (p *Program) Path() string { return p.path }

// VersionAs is the version of a native codex, run by another user.
func VersionAs(ctx context.Context, program string, as Account) (string, error) {
	return codex{path: program, home: "/", dir: "/", limit: inspectLimit,
		as: &syscall.Credential{Uid: as.UID, Gid: as.GID}}.version(ctx, 0)
}

// Version is codex's, if this project works with it. It fails if that user may not run it.
func (p *Program) Version(ctx context.Context) (string, error) {
	return p.version(ctx, versions.Oldest)
}

// SandboxTest is a command that succeeds if codex's sandbox hides the worker's home.
func SandboxTest(home string) []string {
	return []string{"/usr/bin/test", "!", "-e", filepath.Join(home, configName)}
}

// SandboxProblem is the reason why codex could not run SandboxTest, from the end of that run and its standard
// error.
func SandboxProblem(home, end, talk string) *Problem {
	if strings.TrimSpace(talk) == "" { // test itself prints nothing
		return &Problem{Text: "codex's sandbox shows a command " + home + ", where the login is",
			Hint: "systemctl restart codex-worker@" + filepath.Base(home)}
	}
	return &Problem{Text: noSandbox(end, talk), Hint: sandboxHint}
}

const sandboxHint = "install codex with its resources (`npm install -g @openai/codex`), which have a bubblewrap of its own, " +
	"and allow unprivileged user namespaces (sysctl user.max_user_namespaces, " +
	"kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)"

func noSandbox(end, talk string) string {
	return fmt.Sprintf("codex cannot run a command in its sandbox (%s): %s", end, cause(talk))
}

// Sandbox runs SandboxTest in codex's own sandbox, outside of the worker's unit, on an empty home. The error is the
// reason why that does not work.
func (p *Program) Sandbox(ctx context.Context) error {
	home, err := os.MkdirTemp("", "codex-home-")
	if err != nil {
		return fmt.Errorf("cannot make a home to try codex's sandbox: %w", err)
	}
	defer os.RemoveAll(home)
	if err := os.Chown(home, int(p.as.Uid), int(p.as.Gid)); err != nil {
		return fmt.Errorf("cannot make a home to try codex's sandbox: %w", err)
	}
	c := p.on(home)
	// codex looks for bwrap on PATH before it takes its own; the unit hides the distribution's bwrap.
	c.env = append(slices.Clone(c.env), "PATH="+home)
	_, talk, err := c.run(ctx, append([]string{"sandbox", "--"}, SandboxTest(home)...)...)
	if err == nil || wasStopped(err) {
		return err
	}
	return SandboxProblem(home, err.Error(), talk)
}

// cause is the last line that is not Rust's advice on stack traces.
func cause(talk string) string {
	before, _, _ := strings.Cut(talk, "\nnote: ")
	return lastLine(before)
}

// NeedsLogin reports whether requests go to OpenAI with the worker's own login.
func (w *Worker) NeedsLogin() bool { return w.Mode != Demo && needsLogin(w.effective()) }

// RunsCommands reports whether codex may run commands for this worker, in its sandbox.
func (w *Worker) RunsCommands() bool {
	features, _ := w.effective()["features"].(settings)
	return w.Mode != Demo && (features["shell_tool"] != false || features["unified_exec"] != false)
}

// effective are the worker's settings in config.toml.
func (w *Worker) effective() settings { return w.config(w.base("", ""), nil) }
