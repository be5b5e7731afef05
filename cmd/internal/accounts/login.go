package accounts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"codex-proxy/cmd/internal/cli"
	"codex-proxy/cmd/internal/codexhome"
	"codex-proxy/cmd/internal/paths"
	"codex-proxy/units"
)

// Login logs a worker in, and makes it use that login.
func (a *Accounts) Login(ctx context.Context, name string) error {
	w, err := codexhome.Load(workerFileOf(name))
	if err != nil {
		return err
	}
	if err := needsLogin(w); err != nil {
		return err
	}
	if a.APIKey && cli.IsTerminal(a.Stdin) {
		return fmt.Errorf("the API key is read from standard input: "+
			"codex-proxy accounts login %s --with-api-key <FILE", name)
	}
	unit, err := a.describe(ctx, units.Worker(name))
	if err != nil {
		return err
	}
	p, as, err := a.program(w, name, unit)
	if err != nil {
		return err
	}
	if _, err := p.Version(ctx); err != nil { // the error explains why the user cannot run codex
		return err
	}
	if err := makeHome(workerHomeOf(name), as); err != nil {
		return err
	}
	return a.renew(ctx, name, p, as)
}

// renew logs in beside the worker's home, so that the old login holds until there is
// a new one, and then ends the old one.
func (a *Accounts) renew(ctx context.Context, name string, p *codexhome.Program, as codexhome.Account) error {
	aside, err := os.MkdirTemp(paths.WorkerHomes, ".login-"+name+"-") // mode 0700; no worker has such a name
	if err != nil {
		return fmt.Errorf("cannot prepare the login: %w", err)
	}
	defer os.RemoveAll(aside)
	if err := os.Chown(aside, int(as.UID), int(as.GID)); err != nil {
		return fmt.Errorf("cannot prepare the login: %w", err)
	}
	if err := a.runLogin(ctx, p, aside); err != nil {
		return err
	}
	if err := p.TakeOver(aside); err != nil {
		return err
	}
	a.print("The worker %s is logged in.", name)
	if err := a.takeUp(ctx, name); err != nil {
		return err
	}
	if err := p.LogOut(ctx, aside); err != nil {
		a.print("The login of before may still hold at OpenAI: %v", err)
	}
	return nil
}

// needsLogin returns the reason why a worker has no use for a login, or nil.
func needsLogin(w *codexhome.Worker) error {
	switch {
	case w.NeedsLogin():
		return nil
	case w.Mode == codexhome.Demo:
		return fmt.Errorf("the worker needs no login: it is the demo (mode in %s)", w.File)
	}
	return fmt.Errorf("the worker needs no login: its requests go to another endpoint than OpenAI's (%s); "+
		"that endpoint's key is set there, too", w.File)
}

// makeHome makes the worker's home as systemd would at the first start of its unit
// (StateDirectory=, StateDirectoryMode=).
func makeHome(dir string, owner codexhome.Account) error {
	err := os.Mkdir(dir, 0o700)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return fmt.Errorf("cannot make the worker's home: %w", err)
	}
	if err := os.Chown(dir, int(owner.UID), int(owner.GID)); err != nil {
		return fmt.Errorf("cannot make the worker's home: %w", errors.Join(err, os.Remove(dir)))
	}
	return nil
}

// runLogin gives the terminal to codex. It returns nil after a login.
func (a *Accounts) runLogin(ctx context.Context, p *codexhome.Program, dir string) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	mask := syscall.Umask(0o077)
	defer syscall.Umask(mask)
	return p.LogIn(ctx, dir, a.APIKey, a.Stdin, a.Stdout, a.Stderr, signals)
}

// takeUp makes the worker use its new login, which codex reads only when it starts.
// Turns in flight are finished first, as in every restart.
func (a *Accounts) takeUp(ctx context.Context, name string) error {
	unit, err := a.describe(ctx, units.Worker(name))
	if err != nil {
		return err
	}
	target, err := a.describe(ctx, paths.TargetUnit)
	if err != nil {
		return err
	}
	if unit.LoadState != "loaded" {
		a.print("There is no unit %s to start.", unit.Unit)
		return nil
	}
	ctx, stop := a.interruptible(ctx)
	defer stop()
	for _, failed := range []string{units.WorkerSocket(name), unit.Unit} { // a unit without a login may have failed
		if err := a.Systemd.ResetFailed(ctx, failed); err != nil {
			return err
		}
	}
	switch {
	case down(unit) && target.ActiveState != "active":
		a.print("Start it: systemctl start codex-proxy")
		return nil
	case unit.Active():
		a.print("Restarting %s; its turns in flight are finished first.", unit.Unit)
	default:
		a.print("Starting %s.", unit.Unit)
	}
	if err := a.Systemd.Restart(ctx, unit.Unit); err != nil {
		return fmt.Errorf("it is logged in, but %w", err)
	}
	a.print("%s is ready.", unit.Unit)
	return nil
}

// down reports whether the unit does not run, and will not by itself.
func down(unit units.Description) bool {
	switch unit.ActiveState {
	case "inactive", "failed", "deactivating":
		return true
	}
	return false
}

// interruptible bounds the wait for jobs of systemd. The jobs go on after it.
func (a *Accounts) interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(ctx, jobBound)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	return ctx, func() { stop(); cancel() }
}
