package workerscheck

import (
	"context"
	"errors"
	"fmt"

	"codex-proxy/internal/checkup"
	"codex-proxy/workers/codexhome"
)

// sandbox checks, for workers that run commands, that codex can run one in its
// sandbox (bubblewrap), and that the sandbox hides the login.
func (r *room) sandbox(ctx context.Context) []checkup.Finding {
	return r.eachCodex("sandbox", func(w Worker, c Codex) checkup.Finding {
		if w.file.Hands != nil {
			return checkup.Passed(w.Subject(), "not needed, its commands are executed in [hands]")
		}
		if !w.file.RunsCommands() {
			return checkup.Passed(w.Subject(), fmt.Sprintf("not needed, mode %q runs no commands", w.file.Mode))
		}
		return r.trySandbox(ctx, w, c)
	})
}

// trySandbox makes the running worker run a command, because the restrictions of its
// unit apply, too. If that fails, the same command outside of the unit locates the fault.
func (r *room) trySandbox(ctx context.Context, w Worker, c Codex) checkup.Finding {
	subject := w.Subject()
	problem, untried := r.sandboxInside(ctx, w)
	if problem == nil && untried == nil {
		return checkup.Passed(subject, "codex runs a command in its sandbox, inside "+w.Unit())
	}
	if r.Standby(w.Unit()) {
		return checkup.Passed(subject, "is a standby: its sandbox is not tried")
	}
	if err := c.Sandbox(ctx); err != nil {
		return Blame(subject, err, "run it by hand: runuser -u codex-worker -- "+c.Path()+" sandbox -- /bin/true")
	}
	if untried != nil {
		remedy := "journalctl -u " + w.Unit() + " -n 20; then look again"
		if !r.Running(w.Unit()) {
			remedy = "systemctl start " + w.Unit() + ", then look again"
		}
		return checkup.Warning(subject, "codex runs a command in its sandbox outside of "+w.Unit()+
			"; inside this was not tried: "+untried.Error(), remedy)
	}
	return checkup.Failure(subject, problem.Text+"; outside of "+w.Unit()+" this works",
		"systemctl cat "+w.Unit()+"; remove the settings of drop-ins that confine it more than the package does, "+
			"then systemctl restart "+w.Unit())
}

// sandboxInside returns the problem of a command in codex's sandbox inside the unit, or
// the reason why it could not be tried.
func (r *room) sandboxInside(ctx context.Context, w Worker) (problem *codexhome.Problem, untried error) {
	switch {
	case r.BusErr != nil:
		return nil, errors.New("systemd does not answer")
	case !r.Running(w.Unit()): // a connection would start it
		return nil, errors.New("it does not run")
	}
	result, err := r.Command(ctx, w.socketPath(r.directory), codexhome.SandboxTest(w.codexHome()))
	if err != nil {
		return nil, err
	}
	if result.ExitCode == 0 {
		return nil, nil
	}
	return codexhome.SandboxProblem(w.codexHome(), fmt.Sprintf("exit status %d", result.ExitCode), result.Stderr), nil
}
