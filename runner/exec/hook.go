package exec

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"codex-proxy/runner/outcome"
	"codex-proxy/runner/session"
)

// before runs the administrator's hook before the command. The command does not run if the hook fails.
func (s *Shim) before(ctx context.Context, r *run) error {
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
func (s *Shim) after(ctx context.Context, r *run, result *session.Result) {
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

// hook runs a program as the command is run: in its sandbox and its workspace, with its output in the log.
func (s *Shim) hook(ctx context.Context, r *run, args, env []string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.spec.Hooks.Timeout,
		fmt.Errorf("it ran for longer than %v", r.spec.Hooks.Timeout))
	defer cancel()
	spec := *r.spec
	spec.Args, spec.Directory = args, ""
	r.starting.Lock()
	c, err := start(&Launch{Spec: &spec, Dir: s.Workspace, Env: env}, nil,
		&inheritance{score: s.Score, fileSize: spec.FileSize})
	r.starting.Unlock()
	if err != nil {
		return err
	}
	copies := r.copy(c)
	defer copies.Wait()
	defer c.stopStreams()
	exited := c.wait()
	select {
	case end := <-exited:
		return end.fault()
	case <-ctx.Done():
	}
	c.terminate()
	grace := time.NewTimer(spec.Grace)
	defer grace.Stop()
	select {
	case <-exited:
	case <-grace.C:
		c.kill()
		<-exited
	}
	return context.Cause(ctx)
}

// fault is the reason why the hook has failed; nil if it succeeded.
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
