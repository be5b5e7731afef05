package exec

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"codex-proxy/runner/environment"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
	"codex-proxy/runner/setup"
)

// setupMark is the file in HOME that has the key of the set-up that the workspace has. A command that writes it fools
// itself alone.
const setupMark = ".codex-runner-setup"

// errNoSetup is the error about a workspace that nothing fits.
var errNoSetup = fmt.Errorf("no set-up fits the workspace: write %s with a script (run = \"…\"), or leave --env setup "+
	"out", setup.File)

// setUp runs the set-up of the repository in the workspace, as the command runs: in the sandbox of the session, with
// its network or without, under its limits and with its output in the log. It runs for a new workspace, and again when
// its script, an input or a tool has changed. The command does not run if the set-up fails.
func (s *Shim) setUp(ctx context.Context, r *run) error {
	want := r.spec.Environment
	if want == nil || want.Name != environment.Setup {
		return nil
	}
	s.Notifier.Status("Running the set-up of the repository")
	defer s.bound(r)()
	if err := s.makeReady(ctx, r, want); err != nil {
		return &stageError{session.EnvTask, err}
	}
	return nil
}

func (s *Shim) makeReady(ctx context.Context, r *run, want *session.Environment) error {
	mark := setup.Mark(filepath.Join(variable(s.Environ, "HOME"), setupMark))
	if r.spec.Workspace != nil { // it is new
		if err := mark.Remove(); err != nil {
			return err
		}
	}
	ctx, cancel := limited(ctx, want.Wait) // programs that PATH names tell their versions
	defer cancel()
	host := environment.Host{Path: variable(r.launch.Env, "PATH")}
	order, err := setup.Plan(ctx, host, s.Workspace, want.Store)
	switch {
	case ctx.Err() != nil: // tools may not have been asked
		err = context.Cause(ctx)
	case err == nil && order.Script == nil:
		err = errNoSetup
	}
	if err != nil {
		return err
	}
	r.prepared(r.launch.withVariables(order.Script, s.Workspace)) // a shell may have the old one
	key := order.Key()
	if mark.Has(key) {
		return nil
	}
	if r.hasSnapshot(key, s.Files[paths.PatchFile] != nil) {
		return mark.Set(key)
	}
	if err = s.runSetup(ctx, r, order); err == nil {
		order, err = order.After(s.Workspace)
	}
	if err != nil {
		return errors.Join(err, mark.Remove())
	}
	return mark.Set(order.Key())
}

// hasSnapshot reports whether a new workspace has what the set-up with that key leaves. If it is to have, but has not,
// the result says why; a patch may be a reason that is none of the snapshot's.
func (r *run) hasSnapshot(key string, patched bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	want := r.spec.Environment.Snapshot
	if want == nil || r.spec.Workspace == nil {
		return false
	}
	switch {
	case r.launch.Snapshot == key:
		return true
	case r.launch.Snapshot == "":
		r.snapshot = session.SnapshotMissing
	case !patched:
		r.snapshot = session.SnapshotStale
	}
	return false
}

// withVariables is the launch of a command, its hooks and shells with the variables of a set-up.
func (l Launch) withVariables(script *setup.Script, workspace string) *Launch {
	l.activate(environment.Activation{
		Path: script.SearchPath(workspace, variable(l.Env, "HOME")), Env: script.Env,
	})
	return &l
}

func (s *Shim) runSetup(ctx context.Context, r *run, order setup.Order) error {
	if err := order.Store.Verify(); err != nil {
		return err
	}
	dir, err := order.Script.Directory(s.Workspace)
	if err != nil {
		return err
	}
	spec := *r.spec
	spec.Args, spec.Directory = order.Script.Args(), dir
	env := r.launch.Env
	for name, value := range order.Variables() {
		env = with(env, name, value)
	}
	if err := s.aside(ctx, r, &Launch{Spec: &spec, Dir: s.Workspace, Env: env,
		Programs: r.launch.Programs}); err != nil {
		return fmt.Errorf("the set-up %s failed: %w (its output is in the log, `codex-runner setup --print` shows it, and "+
			"timeout of [environments] in runner.toml bounds it)", order.Script.Name, err)
	}
	return nil
}
