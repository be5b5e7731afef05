package accountscli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"codex-proxy/internal/cli"
	"codex-proxy/internal/paths"
	"codex-proxy/units"
	"codex-proxy/units/survey"
	"codex-proxy/workers/codexhome"
	"codex-proxy/workers/homelock"
	"codex-proxy/workers/prepare"
	"codex-proxy/workers/sharing"
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
	home, err := homeForLogin(w, name)
	if err != nil {
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
	p, as, err := program(w, unit)
	if err != nil {
		return err
	}
	if _, err := p.Version(ctx); err != nil { // the error explains why the user cannot run codex
		return err
	}
	l := login{a, name, home, p, as}
	return l.renew(ctx)
}

// homeForLogin is the home for a new login of the worker.
func homeForLogin(w *codexhome.Worker, name string) (string, error) {
	kept := exists(paths.LoginMark(name))
	in, err := codexhome.ReadLogin(workerHomeOf(name))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return "", err
	}
	if w.LoginApart() != kept && (kept || in.Login != codexhome.NoLogin) {
		return "", fmt.Errorf("network in %s has changed, and the login has not moved yet: systemctl daemon-reload, "+
			"systemctl restart %s, and then log in", w.File, units.Worker(name))
	}
	if w.LoginApart() {
		return keptHomeOf(name), nil
	}
	return workerHomeOf(name), nil
}

// login is one login of a worker.
type login struct {
	*Accounts
	worker  string
	home    string // gets the login
	program *codexhome.Program
	as      codexhome.Account // which runs codex
}

// renew logs in next to the worker's home, so that the old login holds until there is
// a new one, and then ends the old one. Stopped at any point, it leaves the worker with
// one of the two.
func (l *login) renew(ctx context.Context) error {
	dir, err := openLoginHome(ctx, l.worker, l.as)
	if err != nil {
		return fmt.Errorf("cannot prepare the login: %w", err)
	}
	defer dir.remove()
	if err := l.run(ctx, dir.path); err != nil {
		return err
	}
	if err := prepare.MakeHome(l.home); err != nil {
		return fmt.Errorf("cannot make the worker's home: %w", err)
	}
	if err := codexhome.Offer(dir.path, l.home); err != nil {
		return err
	}
	l.print("The worker %s is logged in.", l.worker)
	if l.JSON {
		if err := json.NewEncoder(l.Stdout).Encode(loggedIn{l.worker, true}); err != nil {
			return err
		}
	}
	if err := l.takeUp(ctx, l.worker); err != nil {
		return err
	}
	before, err := codexhome.TakeBefore(l.home, dir.path, l.as)
	if err == nil && before {
		err = l.program.LogOut(ctx, dir.path)
	}
	if err != nil {
		l.print("The login of before may still hold at OpenAI: %v", err)
	}
	return nil
}

// run gives the terminal to codex. It returns nil after a login.
func (l *login) run(ctx context.Context, dir string) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	mask := syscall.Umask(0o077)
	defer syscall.Umask(mask)
	out, talk := l.Stdout, l.Stderr
	if l.JSON {
		out = &deviceTalk{people: l.Stderr, json: l.Stdout}
		talk = out
	}
	return l.program.LogIn(ctx, dir, l.APIKey, l.Stdin, out, talk, signals)
}

// adopt makes a stopped worker's new login its login. Another worker does that at its
// next start.
func adopt(ctx context.Context, name, home string) error {
	lock, err := homelock.Take(ctx, home, holder("login"))
	var held *homelock.HeldError
	if errors.As(err, &held) && (held.Holder == units.Worker(name) || held.Holder == units.Login(name)) {
		return nil // it has been started meanwhile
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // add starts a worker that has no home
	}
	if err != nil {
		return err
	}
	return errors.Join(codexhome.AdoptLogin(home), lock.Release())
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
	kept := exists(keptHomeOf(name))
	home := workerHomeOf(name)
	if kept {
		home = keptHomeOf(name)
		if err := a.Systemd.Stop(ctx, units.Login(name)); err != nil && !errors.Is(err, units.ErrNoBus) {
			return err
		}
	}
	if kept || stopped(unit) {
		if err := adopt(ctx, name, home); err != nil {
			return err
		}
	}
	if host := sharing.Host(survey.Generated, name); host != "" {
		a.print("%[1]s serves the account, and uses the new login when the old one ends or is refused. If the "+
			"account is new, or had an API key: systemctl restart %[1]s.", units.Worker(host))
		a.reloadProxy(ctx, func([]string) string { return "" }) // it reads the account anew
		return nil
	}
	if unit.LoadState != "loaded" {
		a.print("There is no unit %s to start.", unit.Unit)
		return nil
	}
	ctx, stop := interruptible(ctx)
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
	if len(servedBy(name)) > 0 { // it may do so from now on
		a.reloadProxy(ctx, func([]string) string { return "" })
	}
	return nil
}

// servedBy are the accounts of others that the worker serves.
func servedBy(worker string) []string {
	names, err := WorkerNames()
	if err != nil {
		return nil
	}
	return sharing.Generated(survey.Generated, names).Served(worker)
}

// stopped reports whether no process of the unit is left.
func stopped(unit units.Description) bool {
	return unit.LoadState != "loaded" || unit.ActiveState == "inactive" || unit.ActiveState == "failed"
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
func interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(ctx, jobBound)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	return ctx, func() { stop(); cancel() }
}
