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

// setUp checks the commit out, and runs its set-up, unless there is a snapshot of its result, or one to begin
// with.
func (b Build) setUp(ctx context.Context, place Place, output *os.File, built *Built) error {
	warm, err := place.begin(ctx, *b.SetUp)
	if err != nil {
		return err
	}
	host := b.host(place.Programs)
	if path, ok := b.SetUp.Scope.Env["PATH"]; ok {
		host.Path = path
	}
	built.Facts = environment.Facts{}
	plan := func() (setup.Order, error) {
		return setup.Plan(ctx, environment.Host{Path: host.Path, Facts: built.Facts}, place.Checkout, b.SetUp.Source)
	}
	order, err := plan()
	built.Lacks = order.LeftOut.Programs
	log := &lastOutput{file: output}
	if b.SetUp.Test {
		built.Snapshot = setup.Snapshot{Key: b.SetUp.From, Family: b.SetUp.As.Family}
		if built.Gone = !warm; err == nil && warm {
			b.test(ctx, place, host, order, log, built)
		}
		return err
	}
	if err == nil && warm && b.SetUp.Scope.Named(order).Family != b.SetUp.As.Family {
		if warm, err = false, place.empty(ctx, *b.SetUp); err == nil {
			order, err = plan()
		}
	}
	built.Lacks = order.LeftOut.Programs
	if err != nil || order.Script == nil || order.Script.Idle() {
		return err
	}
	named := b.SetUp.Scope.Named(order)
	if warm {
		named = b.SetUp.As
	}
	if built.find(*b.SetUp, named) {
		return nil
	}
	built.Made, built.Test = true, order.Script.Test != ""
	built.Bytes, err = b.fill(ctx, place, host, order, log)
	if err != nil && warm && ctx.Err() == nil {
		fmt.Fprintln(log, "The set-up failed on what an earlier one has left, and runs again without.")
		if err = place.empty(ctx, *b.SetUp); err == nil {
			built.Bytes, err = b.fill(ctx, place, host, order, log)
		}
	}
	return err
}

// find takes a snapshot that is there, or notes the one to begin with. It reports whether nothing is to be made.
func (b *Built) find(order setup.Build, named setup.Snapshot) bool {
	for _, b.Snapshot = range []setup.Snapshot{named.Tested(), named} {
		if slices.ContainsFunc(order.Ready, func(r setup.Snapshot) bool { return r.Key == b.Key }) {
			return true
		}
	}
	related := func(r setup.Snapshot) bool { return r.Family == named.Family }
	if i := slices.IndexFunc(order.Ready, related); i >= 0 && order.From == "" {
		b.From = order.Ready[i].Key
	}
	return b.From != ""
}

// test adds the results of the script's Test to a snapshot, in a new one. Whatever Test does, sessions can begin with
// the one before.
func (b Build) test(
	ctx context.Context, place Place, host environment.Host, order setup.Order, log *lastOutput, built *Built,
) {
	if order.Script == nil || b.SetUp.Scope.Named(order).Family != b.SetUp.As.Family {
		return // a tool has changed
	}
	bytes, err := b.bounded(ctx, []string{place.Environments}, func(ctx context.Context) error {
		before, err := place.added(ctx, *b.SetUp, order)
		if err == nil {
			err = place.test(ctx, host, b.SetUp.Scope.Env, order, log)
		}
		if err == nil {
			err = place.tidy(ctx, *b.SetUp, order, before)
		}
		if err != nil {
			return err
		}
		return place.finish(ctx, *b.SetUp, order)
	})
	if err == nil {
		built.Snapshot, built.Made, built.Bytes = b.SetUp.As, true, bytes
	}
}

// tidy removes the files that tests have left in the checkout: they would count as changes of each session.
func (p Place) tidy(ctx context.Context, b setup.Build, order setup.Order, before []string) error {
	after, err := p.added(ctx, b, order)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(p.Checkout)
	if err != nil {
		return err
	}
	defer root.Close()
	had := map[string]bool{}
	for _, name := range before {
		had[name] = true
	}
	for _, name := range after {
		if !had[name] {
			err = errors.Join(err, root.RemoveAll(strings.TrimSuffix(name, "/")))
		}
	}
	return err
}

// added are the files of the checkout that count as changes. A script of the repository's own may keep any.
func (p Place) added(ctx context.Context, b setup.Build, order setup.Order) ([]string, error) {
	if order.Script.Name == setup.Own {
		return nil, nil
	}
	return workspace.Diff{Source: p.source(b), Tree: p.Checkout}.New(ctx)
}

func (p Place) source(b setup.Build) workspace.Source {
	return workspace.Source{Mirror: filepath.Join(p.Repository, paths.Mirror), URL: b.URL, Commit: b.Commit}
}

// fill runs the set-up, and returns how many bytes its files take.
func (b Build) fill(
	ctx context.Context, place Place, host environment.Host, order setup.Order, log *lastOutput,
) (int64, error) {
	// All that the unit may write but /tmp is there, under other names.
	return b.bounded(ctx, []string{place.Environments}, func(ctx context.Context) error {
		if err := place.run(ctx, host, b.SetUp.Scope.Env, order, log); err != nil {
			return err
		}
		return place.finish(ctx, *b.SetUp, order)
	})
}

// begin checks the commit out, and reports whether the place has the files of a snapshot besides: root has noted its
// key then.
func (p Place) begin(ctx context.Context, b setup.Build) (warm bool, err error) {
	left, err := os.ReadFile(filepath.Join(p.State, paths.Left))
	if warm = len(left) > 0; err == nil && warm {
		if err = p.checkOut(ctx, b, true); err == nil {
			return true, nil
		}
	}
	return false, p.empty(ctx, b)
}

// empty leaves nothing but the commit in the place.
func (p Place) empty(ctx context.Context, b setup.Build) error {
	err := workspace.Empty(p.Home)
	if err == nil {
		err = p.checkOut(ctx, b, false)
	}
	if err != nil {
		return fmt.Errorf("cannot check the commit out: %w", err)
	}
	return nil
}

// finish makes the files of the commit again as they are there, which sessions find, and notes the key of the set-up by
// what it has made besides. Each session makes .git anew.
func (p Place) finish(ctx context.Context, b setup.Build, order setup.Order) error {
	if err := p.checkOut(ctx, b, true); err != nil {
		return fmt.Errorf("cannot check the commit out again: %w", err)
	}
	left, err := order.After(ctx, p.Checkout)
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
		Source: p.source(b), Tree: p.Checkout, Record: record, Leave: leave, Mirrors: p.module,
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
	env := p.variables(host, own, order.Script, order.Variables())
	if err := command(ctx, order.Script.Args(), filepath.Join(p.Checkout, dir), env, output); err != nil {
		return fmt.Errorf("the set-up %s failed: %w (`codex-runner setup --print` shows it)", order.Script.Name, err)
	}
	return nil
}

// maxTest bounds the script's Test, for which the first session of a commit waits. It is a variable for tests.
var maxTest = 5 * time.Minute

// test runs the script's Test as a command of a session, which may read the variables. Test may fail; if it takes too
// long, the error shows it: a program that is killed may leave half a file, which others take for a whole one.
func (p Place) test(
	ctx context.Context, host environment.Host, own map[string]string, order setup.Order, output *lastOutput,
) error {
	dir, err := order.Script.Directory(p.Checkout)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, maxTest)
	defer cancel()
	env := p.variables(host, own, order.Script, nil)
	_ = command(bounded, order.Script.TestArgs(), filepath.Join(p.Checkout, dir), env, output) // tests may fail
	return bounded.Err()
}

// command runs a script of a set-up.
func command(ctx context.Context, args []string, dir string, env []string, output *lastOutput) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // the repository's own
	cmd.Dir, cmd.Env = dir, env
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // for processes that hold the pipe: they end with the unit
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return err
	}
	return nil
}

// inherited are the variables that a set-up has of its unit, as a command has them of its session.
var inherited = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR"}

// variables returns the variables of the script: for all builds, its own, the command's own ones, and more.
func (p Place) variables(
	host environment.Host, own map[string]string, script *setup.Script, more map[string]string,
) (env []string) {
	for _, variable := range p.Environ {
		if name, _, _ := strings.Cut(variable, "="); slices.Contains(inherited, name) {
			env = append(env, variable)
		}
	}
	search := append(script.SearchPath(p.Checkout, p.Home), host.Path)
	for _, of := range []map[string]string{{"TERM": "dumb"}, host.Env, script.Env, own, more, {
		"PATH": strings.Join(search, string(os.PathListSeparator)),
	}} {
		for name, value := range of {
			env = append(env, name+"="+value) // the last one of a name counts
		}
	}
	return env
}
