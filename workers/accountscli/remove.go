package accountscli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"codex-proxy/internal/paths"
	"codex-proxy/units"
	"codex-proxy/units/survey"
	"codex-proxy/workers/homelock"
	"codex-proxy/workers/prepare"
	"codex-proxy/workers/sharing"
)

// Remove stops a worker, when its turns in flight are finished, and removes it.
func (a *Accounts) Remove(ctx context.Context, name string) error {
	file, unit, home := workerFileOf(name), units.Worker(name), workerHomeOf(name)
	if name == DefaultWorker {
		return fmt.Errorf("cannot remove the worker default, which codex.target wants; to do without it: "+
			"systemctl mask --now %s, and remove %s", unit, file)
	}
	if !exists(file) && (!a.Purge || !exists(home) && !exists(keptHomeOf(name))) {
		return fmt.Errorf("there is no worker %q; codex-proxy accounts list shows what there is", name)
	}
	served := servedBy(name)
	if err := a.takeDown(ctx, name); err != nil {
		return err
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the worker file: %w", err)
	}
	if err := a.Systemd.DaemonReload(ctx); err != nil { // the generated units go with the file
		return err
	}
	// Not before: the broker of a codex for several accounts ends with the socket of each of them.
	for _, unit := range []string{units.Login(name), units.LoginSocket(name)} {
		if err := a.Systemd.Stop(ctx, unit); err != nil {
			return err
		}
	}
	a.print("The worker %s is removed.", name)
	a.startServed(ctx, survey.Generated, served)
	a.reloadProxy(ctx, func(names []string) string {
		if slices.Contains(names, name) {
			return fmt.Sprintf("config.toml still names it: take %q out of `workers` there, "+
				"then systemctl reload codex-proxy", name)
		}
		return ""
	})
	if a.Purge {
		if err := removeHome(ctx, name); err != nil {
			return fmt.Errorf("cannot remove the worker's home: %w", err)
		}
	}
	a.printKept(home, keptHomeOf(name), filepath.Join("/etc/systemd/system", unit+".d"))
	return nil
}

// startServed starts the workers that run the turns of accounts in place of one that is removed. generated is the
// directory of generated units. A failure is printed and undoes nothing.
func (a *Accounts) startServed(ctx context.Context, generated string, served []string) {
	target, err := a.describe(ctx, paths.TargetUnit)
	if err != nil || target.ActiveState != "active" {
		return
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	for _, name := range served {
		unit, host := units.Worker(name), sharing.Host(generated, name)
		switch {
		case host == "":
			a.print("Starting %s, which serves in its place.", unit)
			if err := a.Systemd.Start(ctx, unit); err != nil {
				a.print("It does not run: %v", err)
			}
		case !slices.Contains(served, host):
			a.print("%[1]s is to serve the account %[2]s now: systemctl restart %[1]s", units.Worker(host), name)
		}
	}
}

// removeHome removes the worker's home once nothing writes to it.
func removeHome(ctx context.Context, name string) error {
	lock, err := homelock.Take(ctx, workerHomeOf(name), holder("remove"))
	switch {
	case err == nil:
		defer lock.Release() //nolint:errcheck // nothing was written
	case !errors.Is(err, fs.ErrNotExist): // a link of systemd may lead to a home that is gone
		return err
	}
	// Without systemd, or before the first start, the home is no link but the directory. A
	// login that was killed has left its own home.
	for _, path := range []string{filepath.Join(paths.PrivateHomes, name), workerHomeOf(name), loginHomeOf(name),
		filepath.Join(paths.PrivateHandsStates, name), filepath.Join(paths.HandsStates, name)} {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return prepare.RemoveLogin(paths.LoginHomes, name)
}

// takeDown stops the worker, when its turns in flight are finished, and removes its
// units.
func (a *Accounts) takeDown(ctx context.Context, name string) error {
	unit, socket := units.Worker(name), units.WorkerSocket(name)
	d, err := a.describe(ctx, unit)
	if err != nil {
		return err
	}
	if d.Active() {
		a.print("Stopping %s; its turns in flight are finished first.", unit)
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	for _, step := range []func() error{
		func() error { return a.Systemd.Stop(ctx, unit) },
		func() error { return a.Systemd.Stop(ctx, socket) },
		func() error { return a.Systemd.Disable(ctx, unit) },
		func() error { return a.Systemd.ResetFailed(ctx, unit) },
		func() error { return a.Systemd.ResetFailed(ctx, socket) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	// systemd leaves the socket's file (RemoveOnStop=).
	err = os.Remove(filepath.Join(paths.WorkerSockets, name+".sock"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the worker's socket: %w", err)
	}
	return nil
}

// printKept prints the things that a removal keeps.
func (a *Accounts) printKept(home, login, dropIns string) {
	switch {
	case exists(login):
		a.print("Its login stays: %s (--purge removes it, and its home)", login)
	case exists(home):
		a.print("Its home stays, with its login: %s (--purge removes it)", home)
	}
	if exists(dropIns) {
		a.print("Its drop-ins stay: %s", dropIns)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
