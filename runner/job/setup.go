package job

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"codex-proxy/runner/environment"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/sandbox"
	"codex-proxy/runner/setup"
	"codex-proxy/runner/workspace"
)

// Place is where a build is done: at the paths where sessions see the files later.
type Place struct {
	Environments   string           // has the environment that is built, by its key
	Checkout, Home string           // of a set-up
	State          string           // has the record of the checkout
	Repository     string           // the state of the repository, with its mirrors
	Programs       sandbox.Programs // beside those of the order
	Environ        []string         // of this process, as os.Environ returns it
}

// setUp checks the commit out, and runs its set-up, unless there is a snapshot of what that leaves.
func (b Build) setUp(ctx context.Context, place Place, output *os.File, built *Built) error {
	if err := place.checkOut(ctx, *b.SetUp, false); err != nil {
		return fmt.Errorf("cannot check the commit out: %w", err)
	}
	host := b.host(place.Programs)
	if path, ok := b.SetUp.Scope.Env["PATH"]; ok {
		host.Path = path
	}
	order, err := setup.Plan(ctx, environment.Host{Path: host.Path}, place.Checkout, b.SetUp.Store)
	if err != nil || order.Script == nil {
		return err
	}
	key := setup.SnapshotKey(b.SetUp.Scope.Sum(), order.Key())
	built.Key = key
	if slices.Contains(b.SetUp.Ready, key) {
		return nil
	}
	built.Made = true
	// All that the unit may write but /tmp is there, under other names.
	built.Bytes, err = b.bounded(ctx, []string{place.Environments}, func(ctx context.Context) error {
		if err := place.run(ctx, host, b.SetUp.Scope.Env, order, &lastOutput{file: output}); err != nil {
			return err
		}
		return place.finish(ctx, *b.SetUp, order)
	})
	return err
}

// finish makes the files of the commit again as they are there, which sessions find, and notes the key of the set-up by
// what it has made besides. Each session makes .git anew.
func (p Place) finish(ctx context.Context, b setup.Build, order setup.Order) error {
	if err := p.checkOut(ctx, b, true); err != nil {
		return fmt.Errorf("cannot check the commit out again: %w", err)
	}
	left, err := order.After(p.Checkout)
	if err == nil {
		err = os.WriteFile(filepath.Join(p.State, paths.Left), []byte(left.Key()), 0o600)
	}
	return errors.Join(err, os.RemoveAll(filepath.Join(p.Checkout, ".git")))
}

// checkOut makes the checkout of the commit, and leaves what a set-up has added, if there was one.
func (p Place) checkOut(ctx context.Context, b setup.Build, leave bool) error {
	record, err := os.OpenFile(filepath.Join(p.State, paths.Record), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer record.Close()
	report, err := workspace.Checkout{
		Source: workspace.Source{Mirror: filepath.Join(p.Repository, paths.Mirror), URL: b.URL, Commit: b.Commit},
		Tree:   p.Checkout, Record: record, Leave: leave, Mirrors: p.module,
	}.Run(ctx)
	if err == nil && leave {
		err = report.Recovered // nothing of the set-up is there any more
	}
	return err
}

// module returns the mirror of a submodule.
func (p Place) module(url string) (string, error) {
	mirror := filepath.Join(p.Repository, paths.ModuleMirror(url))
	if _, err := os.Stat(mirror); errors.Is(err, fs.ErrNotExist) {
		return "", workspace.ErrNoMirror
	} else if err != nil {
		return "", err
	}
	return mirror, nil
}

// run runs the script as a command of a session is run.
func (p Place) run(
	ctx context.Context, host environment.Host, own map[string]string, order setup.Order, output *lastOutput,
) error {
	if err := order.Store.Verify(); err != nil {
		return err
	}
	dir, err := order.Script.Directory(p.Checkout)
	if err != nil {
		return err
	}
	args := order.Script.Args()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // the repository's own
	cmd.Dir, cmd.Env = filepath.Join(p.Checkout, dir), p.variables(host, own, order)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // for processes that hold the pipe: they end with the unit
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return fmt.Errorf("the set-up %s failed: %w (`codex-runner setup --print` shows it)", order.Script.Name, err)
	}
	return nil
}

// inherited are the variables that a set-up has of its unit, as a command has them of its session.
var inherited = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR"}

// variables are those of the script: the ones of all builds, its own, and own, which are those of the command.
func (p Place) variables(host environment.Host, own map[string]string, order setup.Order) (env []string) {
	for _, variable := range p.Environ {
		if name, _, _ := strings.Cut(variable, "="); slices.Contains(inherited, name) {
			env = append(env, variable)
		}
	}
	search := append(order.Script.SearchPath(p.Checkout, p.Home), host.Path)
	for _, of := range []map[string]string{{"TERM": "dumb"}, host.Env, order.Script.Env, own, order.Variables(), {
		"PATH": strings.Join(search, string(os.PathListSeparator)),
	}} {
		for name, value := range of {
			env = append(env, name+"="+value) // the last one of a name counts
		}
	}
	return env
}
