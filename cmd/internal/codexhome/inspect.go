package codexhome

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"
)

// systemdPath is PATH of a unit that does not set its own (systemd.exec(5)).
const systemdPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"

// hidden are the directories of which the unit sees nothing, or an empty one of its own: ProtectHome= and
// PrivateTmp= in codex-worker@.service.
var hidden = []string{"/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/"}

// Program is codex as one worker's unit runs it, to look at it beside the running worker: as the worker's
// user, on the worker's home, with nothing of our environment. It is not the home's preparation, and writes
// nothing that the next start depends on.
type Program struct{ codex }

// Account is a user to run codex as.
type Account struct{ UID, GID uint32 }

// inspectLimit bounds each run of a Program: somebody waits for it.
const inspectLimit = 5 * time.Second

// Program finds the codex of the worker whose home is home. env is Environment= of its unit. Each run of it is
// bounded by 5 s. Errors are Problems.
func (w *Worker) Program(home string, env []string, as Account) (*Program, error) {
	path, err := findCodex(w, searchPath(env), npmPrefixes)
	if err != nil {
		return nil, err
	}
	for _, dir := range hidden {
		if strings.HasPrefix(path, dir) {
			return nil, w.problem("codex_path", fmt.Sprintf("the worker cannot see %s: its unit hides %s", path, dir),
				"install codex elsewhere, `npm install -g @openai/codex`")
		}
	}
	return &Program{codex{path: path, home: home, dir: "/", limit: inspectLimit, as: &syscall.Credential{Uid: as.UID, Gid: as.GID}, env: env}}, nil
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

// Version is codex's, if this project works with it. It fails where the worker's user may not run it.
func (p *Program) Version(ctx context.Context) (string, error) { return p.version(ctx) }

// LoggedIn says whether the home has a login, without asking the server whether it is any good.
func (p *Program) LoggedIn(ctx context.Context) (bool, error) { return p.loggedIn(ctx) }

// SandboxTest is a command that succeeds in codex's sandbox, which must keep it from writing to the worker's
// home.
func SandboxTest(home string) []string { return []string{"/usr/bin/test", "!", "-w", home} }

// SandboxProblem is why codex could not run SandboxTest, from how that ended and what it wrote to its
// standard error.
func SandboxProblem(home, end, talk string) *Problem {
	if strings.TrimSpace(talk) == "" { // test itself says nothing
		return &Problem{Text: "codex's sandbox lets a command write to " + home,
			Hint: "use another version of codex, or of bubblewrap"}
	}
	return &Problem{Text: fmt.Sprintf("codex cannot run a command in its sandbox (%s): %s", end, cause(talk)),
		Hint: "install bubblewrap, and allow unprivileged user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)"}
}

// Sandbox runs SandboxTest in codex's own sandbox, outside of the worker's unit, and says why that does not
// work, or nil.
func (p *Program) Sandbox(ctx context.Context) error {
	_, talk, err := p.run(ctx, append([]string{"sandbox", "--"}, SandboxTest(p.home)...)...)
	if err == nil || wasStopped(err) {
		return err
	}
	return SandboxProblem(p.home, err.Error(), talk)
}

// cause is the last line that is not Rust's advice on stack traces.
func cause(talk string) string {
	before, _, _ := strings.Cut(talk, "\nnote: ")
	return lastLine(before)
}

// NeedsLogin says whether requests go to OpenAI with the worker's own login.
func (w *Worker) NeedsLogin() bool { return w.Mode != Demo && needsLogin(w.effective()) }

// RunsCommands says whether codex may run commands for this worker, which it does in its sandbox.
func (w *Worker) RunsCommands() bool {
	features, _ := w.effective()["features"].(settings)
	return w.Mode != Demo && (features["shell_tool"] != false || features["unified_exec"] != false)
}

// Unconfined says whether the [codex] table turns the sandbox off.
func (w *Worker) Unconfined() bool { return w.effective()["sandbox_mode"] == "danger-full-access" }

// effective are the settings that decide what the worker is.
func (w *Worker) effective() settings { return w.config(w.base("", ""), nil) }
