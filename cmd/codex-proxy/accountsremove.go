package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"codex-proxy/cmd/internal/paths"
	"codex-proxy/units"
)

// remove is `codex-proxy accounts remove`.
func (o *accountsOptions) remove(ctx context.Context, name string) error {
	file, unit, home := workerFileOf(name), units.Worker(name), workerHomeOf(name)
	if name == defaultWorker {
		return fmt.Errorf("cannot remove the worker default, which codex.target wants; to do without it: systemctl mask --now %s, and remove %s", unit, file)
	}
	if !exists(file) && (!o.purge || !exists(home)) {
		return fmt.Errorf("there is no worker %q; codex-proxy accounts list shows what there is", name)
	}
	if err := o.takeDown(ctx, name); err != nil {
		return err
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the worker file: %w", err)
	}
	o.tell("The worker %s is removed.", name)
	o.reloadProxy(ctx, func(names []string) string {
		if slices.Contains(names, name) {
			return fmt.Sprintf("config.toml still names it: take %q out of `workers` there, then systemctl reload codex-proxy", name)
		}
		return ""
	})
	if o.purge {
		if err := os.RemoveAll(home); err != nil {
			return fmt.Errorf("cannot remove the worker's home: %w", err)
		}
	}
	o.tellLeft(home, filepath.Join("/etc/systemd/system", unit+".d"))
	return nil
}

// takeDown stops the worker, when its turns in flight are finished, and leaves no
// unit of it.
func (o *accountsOptions) takeDown(ctx context.Context, name string) error {
	unit, socket := units.Worker(name), units.WorkerSocket(name)
	d, err := o.describe(ctx, unit)
	if err != nil {
		return err
	}
	if d.Active() {
		o.tell("Stopping %s; its turns in flight are finished first.", unit)
	}
	ctx, stop := o.interruptible(ctx)
	defer stop()
	for _, step := range []func() error{
		func() error { return o.systemd.Stop(ctx, unit) },
		func() error { return o.systemd.Stop(ctx, socket) },
		func() error { return o.systemd.Disable(ctx, unit) },
		func() error { return o.systemd.ResetFailed(ctx, unit) },
		func() error { return o.systemd.ResetFailed(ctx, socket) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	// systemd leaves the socket's file (RemoveOnStop=).
	if err := os.Remove(filepath.Join(paths.WorkerSockets, name+".sock")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the worker's socket: %w", err)
	}
	return nil
}

// tellLeft says what a removal has not taken away.
func (o *accountsOptions) tellLeft(home, dropIns string) {
	if exists(home) {
		o.tell("Its home stays, with its login: %s (--purge removes it)", home)
	}
	if exists(dropIns) {
		o.tell("Its drop-ins stay: %s", dropIns)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
