package runs

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/files"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
	"codex-proxy/runner/store"
	"codex-proxy/units"
)

// launch starts the unit of a command. An error means that it does not run.
func (c *run) launch(ctx context.Context) error {
	full, err := c.Commands.Find(ctx, c.Session, c.Number)
	if err == nil {
		err = c.Commands.Move(ctx, c.Session, c.Number, wire.CommandQueued, wire.CommandStarting)
	}
	if err != nil {
		return err
	}
	c.Queue.Announce()
	if err := c.writeInputs(ctx, full); err != nil {
		return err
	}
	if err := c.start(ctx, full.Command.Limits); err != nil {
		return err
	}
	c.guard.allow(full.Command.Limits)
	c.state.start()
	return nil
}

// writeInputs leases the workspace of a command, and writes the files that its unit reads.
func (c *run) writeInputs(ctx context.Context, full store.Live) error {
	slot, err := c.Workspaces.Lease(ctx, full)
	if err != nil {
		return err
	}
	if len(full.Secrets) > 0 && !c.Files.HasSecrets(c.Session, full.Secrets) { // they lie in memory alone
		return errors.New("the secrets of the session are gone with a restart of the host: make a new session")
	}
	if err := c.Files.Make(c.Session, nil, nil); err != nil {
		return err
	}
	spec := c.spec(full, slot)
	if spec.Environment, err = c.environment(ctx, full); err != nil {
		return err
	}
	return c.Files.WriteCommand(c.Session, c.Number, spec)
}

// environment is the environment of the specification, for which a build may have to run. A cancel ends the wait, and
// not the build.
func (c *run) environment(ctx context.Context, full store.Live) (*session.Environment, error) {
	if session.IsDiff(full.Command.Args) {
		return c.beginning()
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(c.state.context(), func() { stop(errCancelled) })()
	found, err := c.Environments.Spec(ctx, full)
	if errors.Is(context.Cause(ctx), errCancelled) {
		return nil, errCancelled
	}
	return found, err
}

// beginning is the environment of the changes of a session: they need the snapshot that the session began with, and no
// packages.
func (c *run) beginning() (*session.Environment, error) {
	first, err := c.Files.Spec(c.Session, 1)
	if err != nil || first == nil || first.Environment == nil || first.Environment.Snapshot == nil {
		return nil, err
	}
	return first.Environment, nil
}

// spec is the specification of a command, less its environment. With a workspace, it gets the patch of its session as
// well; a command after the first finds the workspace as it is, also after a stop of the host.
func (c *run) spec(full store.Live, slot int) *session.Spec {
	spec := SpecOf(full.Command, slot)
	spec.Hold, spec.Hooks, spec.Repository = full.Hold, c.Hooks, full.Repository
	spec.Owner, spec.Sandbox = full.Owner, c.Sandbox
	if spec.Artifacts != nil {
		spec.Artifacts.Bytes, spec.Artifacts.Count = c.Artifacts.Bytes, c.Artifacts.Count
	}
	if known := c.Files.Workspace(c.Session, c.Number); known != files.Made && !full.Command.Kept {
		spec.Workspace = &session.Workspace{URL: full.URL, Commit: full.Commit, Keep: known == files.Unknown}
	}
	return spec
}

// SpecOf is the specification of a command for its unit.
func SpecOf(c wire.NewCommand, slot int) *session.Spec {
	spec := &session.Spec{
		Version: session.Version, Args: c.Args, Directory: c.Directory, Env: c.Env, Journal: c.Journal, Slot: slot,
		Timeout: time.Duration(c.Limits.Timeout), Grace: time.Duration(c.Limits.Grace),
		OutputLimit: c.Limits.Output, FileSize: c.Limits.FileSize, Disk: c.Limits.Disk,
	}
	if len(c.Artifacts) > 0 {
		spec.Artifacts = &session.Artifacts{Patterns: c.Artifacts}
	}
	if c.TTY != nil {
		spec.Terminal = &session.Terminal{Rows: cmp.Or(c.TTY.Rows, 24), Columns: cmp.Or(c.TTY.Columns, 80)}
		spec.Env = map[string]string{"TERM": cmp.Or(c.TTY.Term, "xterm-256color")}
		maps.Copy(spec.Env, c.Env)
	}
	return spec
}

// errCancelled means that a command was cancelled before its unit was started.
var errCancelled = errors.New("it was cancelled before its start")

// start starts the unit. While systemd does not answer, the unit and the files have the state: root makes the log
// before anything of the command runs, and starts no command that has a log. So a second request runs no command twice.
func (c *run) start(ctx context.Context, limits wire.Limits) error {
	begun := func() bool {
		return c.Files.Has(c.Session, c.Number, paths.Output) || c.Files.Has(c.Session, c.Number, paths.Ended)
	}
	err := c.Systemd.Insist(ctx, begun, func() error {
		if c.state.cancelledBy() != "" && !begun() { // while systemd did not answer
			if err := c.Systemd.Stop(ctx, c.unit); err != nil {
				return err
			}
			return errCancelled
		}
		return c.Systemd.StartWith(ctx, c.unit, Properties(limits)...)
	})
	if err != nil && ctx.Err() == nil && !begun() && !c.Systemd.Runs(ctx, c.unit) {
		return err
	}
	return nil
}

// UnitOf is the unit that runs the commands of the session.
func UnitOf(c store.Live) string {
	if c.Network {
		return paths.OnlineUnit(c.Session)
	}
	return paths.SessionUnit(c.Session)
}

// microseconds is a second of CPU time in the units of CPUQuotaPerSecUSec.
const microseconds = 1e6

// Properties are the limits that systemd enforces, on the unit.
func Properties(l wire.Limits) []units.Property {
	var all []units.Property
	for _, p := range []units.Property{
		{Name: "MemoryMax", Value: uint64(l.Memory)},
		{Name: "TasksMax", Value: uint64(l.Tasks)},
		{Name: "CPUQuotaPerSecUSec", Value: uint64(l.CPUs * microseconds)},
	} {
		if p.Value > 0 {
			all = append(all, p)
		}
	}
	return all
}
