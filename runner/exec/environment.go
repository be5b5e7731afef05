package exec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"codex-proxy/runner/environment"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
)

// Environment is the Preparation that has the command use the packages that Spec.Environment asks for.
type Environment struct {
	Dir string // paths.Environments
}

// errNotProvided is why a wait ended.
var errNotProvided = errors.New("the environment was not there in time: look at codex-runner.service, or raise the bound")

// Stage is session.EnvTask.
func (Environment) Stage() session.Stage { return session.EnvTask }

// Prepare finds out which environment the workspace needs, waits for the daemon to provide it, and activates it.
func (e Environment) Prepare(ctx context.Context, l *Launch) error {
	want := l.Spec.Environment
	if want == nil || environment.IsSetup(want.Name) { // setUp runs it when the workspace is whole
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, want.Wait, errNotProvided)
	defer cancel()
	err := e.prepare(ctx, l, want)
	if err != nil && errors.Is(context.Cause(ctx), errNotProvided) {
		return errNotProvided
	}
	return err
}

func (e Environment) prepare(ctx context.Context, l *Launch, want *session.Environment) error {
	programs := l.Programs
	if want.Owner == paths.Shared {
		programs = programs.Shared() // the build has no more
	}
	host := environment.Host{Path: programs.Path()}
	order, err := environment.Plan(ctx, host, l.Dir, want.Owner, want.Store)
	if err != nil {
		return l.untooled(err)
	}
	key := order.Key()
	dir := filepath.Join(e.Dir, key)
	if err := l.Provide(ctx, &Need{Key: key, Order: order}); err != nil {
		return err
	}
	if !environment.Ready(dir, key) { // it was removed after Provide
		if err := l.Provide(ctx, &Need{Key: key, Order: order, Missing: true}); err != nil {
			return err
		}
	}
	if !environment.Ready(dir, key) {
		return fmt.Errorf("the environment %s was removed while it was provided: run the command again", key)
	}
	l.activate(environment.Activate(dir))
	return nil
}

// activate changes the variables of the launch. Those of the specification precede.
func (l *Launch) activate(a environment.Activation) {
	for name, value := range a.Env {
		if _, ok := l.Spec.Env[name]; !ok {
			l.Env = with(l.Env, name, value)
		}
	}
	if len(a.Path) > 0 {
		path := strings.Join(append(a.Path, variable(l.Env, "PATH")), string(os.PathListSeparator))
		l.Env = with(l.Env, "PATH", path)
	}
}
