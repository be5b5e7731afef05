package exec

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"codex-proxy/runner/exec/stdio"
	"codex-proxy/runner/outcome"
	"codex-proxy/runner/session"
)

// hooks are the commands before and after that of the user.
type hooks struct{ *Shim }

// before runs the administrator's hook before the command. The command does not run if the hook fails.
func (s hooks) before(ctx context.Context, r *run) error {
	if r.spec.Hooks == nil || len(r.spec.Hooks.Before) == 0 {
		return nil
	}
	s.Notifier.Status("Running the hook before the command")
	if err := s.hook(ctx, r, r.spec.Hooks.Before, r.launch.Env); err != nil {
		return &stageError{session.HookTask,
			fmt.Errorf("the hook before the command failed: %w ([hooks] in runner.toml)", err)}
	}
	return nil
}

// after runs the hook after a command that ran, with its outcome in the environment. Its failure is recorded and
// changes nothing else. ctx ends when systemd stops the unit.
func (s hooks) after(ctx context.Context, r *run, result *session.Result) {
	if r.spec.Hooks == nil || len(r.spec.Hooks.After) == 0 {
		return
	}
	s.Notifier.Status("Running the hook after the command")
	ended := outcome.Decide(outcome.Facts{Result: result})
	env := with(r.launch.Env, "CODEX_OUTCOME", string(ended.Word))
	env = with(env, "CODEX_EXIT_STATUS", strconv.Itoa(ended.ExitStatus))
	if err := s.hook(ctx, r, r.spec.Hooks.After, env); err != nil {
		result.HookFault = err.Error()
	}
	result.Bytes = r.log.Bytes()
}

// hook runs a program of the administrator.
func (s hooks) hook(ctx context.Context, r *run, args, env []string) error {
	ctx, cancel := limited(ctx, r.spec.Hooks.Timeout)
	defer cancel()
	spec := *r.spec
	spec.Args, spec.Directory = args, ""
	return s.aside(ctx, r, &Launch{Spec: &spec, Dir: s.Workspace, Env: env, Programs: r.launch.Programs})
}

// limited returns a context that ends after a time, with that as the cause.
func limited(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("it ran for longer than %v", limit))
}

// aside runs another program than the command as the command is run: in its sandbox and its workspace, with its output
// in the log. It is ended when ctx ends.
func (s *Shim) aside(ctx context.Context, r *run, launch *Launch) error {
	streams, err := stdio.Piped(nil)
	if err != nil {
		return err
	}
	r.starting.Lock()
	c, err := start(launch, streams, &inheritance{score: s.Score, fileSize: launch.Spec.FileSize})
	r.starting.Unlock()
	if err != nil {
		return err
	}
	copies := r.copy(c)
	defer copies.Wait()
	defer c.Stop()
	exited := c.wait()
	select {
	case end := <-exited:
		return end.fault()
	case <-ctx.Done():
	}
	c.terminate()
	grace := time.NewTimer(launch.Spec.Grace)
	defer grace.Stop()
	select {
	case <-exited:
	case <-grace.C:
		c.kill()
		<-exited
	}
	return context.Cause(ctx)
}

// fault is the reason why the program has failed; nil if it succeeded.
func (e end) fault() error {
	result := &session.Result{}
	e.tell(result)
	switch {
	case !result.Exited:
		return errors.Join(errors.New("its end is not known"), e.err)
	case result.Signal != 0:
		return fmt.Errorf("signal %d", result.Signal)
	case result.Status != 0:
		return fmt.Errorf("exit status %d", result.Status)
	}
	return nil
}
