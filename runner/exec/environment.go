package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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
	if want == nil || want.Name == environment.Setup { // setUp runs it when the workspace is whole
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
	facts := environment.Facts{}
	if len(want.Facts) > 0 {
		if err := json.Unmarshal(want.Facts, &facts); err != nil {
			return fmt.Errorf("the specification of the command has wrong facts: %w", err)
		}
	}
	programs := l.Programs
	if want.Owner == paths.Shared {
		programs = programs.Shared() // the build has no more
	}
	host := environment.Host{Path: programs.Path(), Facts: facts}
	order, err := environment.Plan(ctx, host, l.Dir, want.Owner, want.Name, want.Store)
	if err != nil || order.Provider == "none" {
		return l.untooled(err)
	}
	key := order.Key()
	dir := filepath.Join(e.Dir, key)
	if err := l.Provide(ctx, &Need{Key: key, Order: order, Facts: facts}); err != nil {
		return err
	}
	if !environment.Ready(dir, key) { // it was removed after Provide
		if err := l.Provide(ctx, &Need{Key: key, Order: order, Facts: facts, Missing: true}); err != nil {
			return err
		}
	}
	if !environment.Ready(dir, key) {
		return fmt.Errorf("the environment %s was removed while it was provided: run the command again", key)
	}
	provider, err := environment.Find(order.Provider)
	if err != nil {
		return err
	}
	return e.activate(l, provider.Activate(dir))
}

// activate changes the launch and the workspace.
func (e Environment) activate(l *Launch, a environment.Activation) error {
	l.activate(a)
	tree, err := os.OpenRoot(l.Dir)
	if err != nil {
		return err
	}
	defer tree.Close()
	for name, target := range a.Links {
		if err := e.link(tree, name, target); err != nil {
			return err
		}
	}
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

// link makes a link in the workspace, where one to an environment may be from an earlier command.
func (e Environment) link(tree *os.Root, name, target string) error {
	switch old, err := tree.Readlink(name); {
	case errors.Is(err, fs.ErrNotExist):
		if err := exclude(tree, name); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("the workspace has %s, where the environment belongs: remove it (%w)", name, err)
	case old == target:
		return nil
	case !strings.HasPrefix(old, e.Dir+"/"):
		return fmt.Errorf("the workspace has a link %s to %s, where the environment belongs: remove it", name, old)
	default:
		if err := tree.Remove(name); err != nil {
			return err
		}
	}
	return tree.Symlink(target, name)
}

// exclude has git ignore a file of the workspace (gitignore(5)), if that has a repository.
func exclude(tree *os.Root, name string) error {
	file, err := tree.OpenFile(".git/info/exclude", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "/%s\n", name)
	return errors.Join(err, file.Close())
}
