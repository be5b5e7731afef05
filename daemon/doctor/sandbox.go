package doctor

import (
	"context"
	"errors"
	"fmt"

	"codex-proxy/workers/codexhome"
)

// checkSandbox checks, for workers that run commands, that codex can run one in its
// sandbox (bubblewrap), and that the sandbox hides the login.
func checkSandbox(ctx context.Context, s *survey) []Finding {
	return s.eachCodex("sandbox", func(w worker, c Codex) Finding {
		if !w.file.RunsCommands() {
			return ok("worker "+w.name, fmt.Sprintf("not needed, mode %q runs no commands", w.file.Mode))
		}
		return s.trySandbox(ctx, w, c)
	})
}

// trySandbox makes the running worker run a command, because the restrictions of its
// unit apply, too. If that fails, the same command outside of the unit locates the fault.
func (s *survey) trySandbox(ctx context.Context, w worker, c Codex) Finding {
	subject := "worker " + w.name
	problem, untried := s.sandboxInside(ctx, w)
	if problem == nil && untried == nil {
		return ok(subject, "codex runs a command in its sandbox, inside "+w.unit())
	}
	if s.standby(w.unit()) {
		return ok(subject, "is a standby: its sandbox is not tried")
	}
	if err := c.Sandbox(ctx); err != nil {
		return blame(subject, err, "run it by hand: runuser -u codex-worker -- "+c.Path()+" sandbox -- /bin/true")
	}
	if untried != nil {
		remedy := "journalctl -u " + w.unit() + " -n 20; then look again"
		if !s.running(w.unit()) {
			remedy = "systemctl start " + w.unit() + ", then look again"
		}
		return warn(subject, "codex runs a command in its sandbox outside of "+w.unit()+
			"; inside this was not tried: "+untried.Error(), remedy)
	}
	return fail(subject, problem.Text+"; outside of "+w.unit()+" this works",
		"systemctl cat "+w.unit()+"; remove the settings of drop-ins that confine it more than the package does, "+
			"then systemctl restart "+w.unit())
}

// sandboxInside returns the problem of a command in codex's sandbox inside the unit, or
// the reason why it could not be tried.
func (s *survey) sandboxInside(ctx context.Context, w worker) (problem *codexhome.Problem, untried error) {
	switch {
	case s.busErr != nil:
		return nil, errors.New("systemd does not answer")
	case !s.running(w.unit()): // a connection would start it
		return nil, errors.New("it does not run")
	}
	r, err := s.Command(ctx, s.socketPath(w), codexhome.SandboxTest(home(w.name)))
	if err != nil {
		return nil, err
	}
	if r.ExitCode == 0 {
		return nil, nil
	}
	return codexhome.SandboxProblem(home(w.name), fmt.Sprintf("exit status %d", r.ExitCode), r.Stderr), nil
}
