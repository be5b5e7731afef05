package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

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

// noSetup is the note of a command for which a set-up is no must.
const noSetup = "No set-up fits the repository, and the command had the programs of the host alone (" + setup.File +
	" makes one, and --env none leaves this line out)."

// setUp runs the set-up of the repository in the workspace, as the command runs: in the sandbox of the session, with
// its network or without, under its limits and with its output in the log. It runs for a new workspace, and again when
// its script, an input or a tool has changed. The command does not run if the set-up fails.
func (s *Shim) setUp(ctx context.Context, r *run) error {
	want := r.spec.Environment
	if want == nil || !environment.IsSetup(want.Name) {
		return nil
	}
	s.Notifier.Status("Running the set-up of the repository")
	defer s.bound(r)()
	err := s.makeReady(ctx, r, want)
	switch {
	case err == nil:
		return nil
	case lenient(r.spec) && ctx.Err() == nil:
		remark(r, "The command ran without the set-up of what its session has changed: "+err.Error()+".")
		return nil
	}
	return &stageError{session.EnvTask, err}
}

// lenient reports whether a command runs though its set-up fails: one of the session has changed the script or an
// input, and the next one may have to change it again.
func lenient(spec *session.Spec) bool {
	return spec.Environment.Name == environment.Auto && spec.Workspace == nil
}

// remark adds sentences to the note of the result.
func remark(r *run, sentences ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note = strings.TrimSpace(r.note + " " + strings.Join(sentences, " "))
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
	order, err := s.order(ctx, r, want)
	if err != nil || order.Script == nil {
		return err
	}
	r.prepared(r.launch.withVariables(order.Script, s.Workspace)) // a shell may have the old one
	key := order.Key()
	if mark.Has(key) || order.Script.Idle() {
		return nil
	}
	if r.hasSnapshot(key, s.Files[paths.PatchFile] != nil) {
		return mark.Set(key)
	}
	if err = s.runSetup(ctx, r, order); err == nil {
		order, err = order.After(ctx, s.Workspace)
	}
	switch {
	case err == nil:
		return mark.Set(order.Key())
	case lenient(r.spec):
		return errors.Join(err, mark.Set(key)) // the next command does not wait for the same
	}
	return errors.Join(err, mark.Remove())
}

// order is for the set-up of the workspace. Without a script it needs none.
func (s *Shim) order(ctx context.Context, r *run, want *session.Environment) (setup.Order, error) {
	host := environment.Host{Path: variable(r.launch.Env, "PATH"), Facts: environment.Facts{}}
	if len(want.Facts) > 0 {
		if err := json.Unmarshal(want.Facts, &host.Facts); err != nil {
			return setup.Order{}, fmt.Errorf("the specification of the command has wrong facts: %w", err)
		}
	}
	order, err := setup.Plan(ctx, host, s.Workspace, setup.Source{Store: want.Store, Given: want.SetUp})
	switch {
	case ctx.Err() != nil: // tools may not have been asked
		return order, context.Cause(ctx)
	case err != nil:
		return order, r.launch.untooled(err)
	case order.Script == nil && want.Name == environment.Setup:
		return order, errNoSetup
	case order.LeftOut.All != nil && want.Name == environment.Setup:
		return order, r.launch.untooled(order.LeftOut.All)
	case r.spec.Workspace == nil:
		return order, nil
	case order.Script == nil:
		remark(r, noSetup)
	}
	remark(r, order.LeftOut.Notes...)
	if faults := r.launch.Programs.Faults(); len(order.LeftOut.Notes) > 0 && faults != "" {
		remark(r, "Toolchains: "+faults+".")
	}
	return order, nil
}

// hasSnapshot reports whether a new workspace has what the set-up with that key leaves. If it is to have, but has not,
// the result says why; a patch may be a reason that is none of the snapshot's.
func (r *run) hasSnapshot(key string, patched bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	want := r.spec.Environment.Snapshot
	switch {
	case r.spec.Workspace == nil:
		return false
	case want != nil && r.launch.Snapshot == key:
		return true
	case want != nil && r.launch.Snapshot == "":
		r.snapshot = session.SnapshotMissing
	case !patched: // without a snapshot, the host may have lacked all programs before
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
		return fmt.Errorf("the set-up %s failed: %w (its output is in the log, `codex-runner setup --print` shows it, "+
			"timeout of [environments] in runner.toml bounds it, and --env none leaves it out)", order.Script.Name, err)
	}
	return nil
}
