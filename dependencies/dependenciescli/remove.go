package dependenciescli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"codex-proxy/internal/settingsfile"
)

// Remove stops a dependency and removes it. While settings require it, that is an error.
func (d *Dependencies) Remove(ctx context.Context, name string) error {
	dep := d.of(name)
	if !settingsfile.Exists(dep.file) && (!d.Purge || !dep.hasState()) {
		return fmt.Errorf("there is no dependency %q; codex-proxy dependencies list shows what there is", name)
	}
	if err := dep.notRequired(d.Etc); err != nil {
		return err
	}
	if err := d.takeDown(ctx, dep); err != nil {
		return err
	}
	d.print("The dependency %s is removed.", name)
	if d.Purge {
		if err := dep.removeState(); err != nil {
			return fmt.Errorf("cannot remove its state: %w", err)
		}
	}
	d.printKept(dep)
	return nil
}

// takeDown stops the unit and takes it away.
func (d *Dependencies) takeDown(ctx context.Context, dep dependency) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	if err := d.Systemd.Stop(ctx, dep.unit); err != nil {
		return err
	}
	if err := os.Remove(dep.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the file: %w", err)
	}
	if d.Purge {
		if err := os.RemoveAll(dep.dropIns); err != nil {
			return fmt.Errorf("cannot remove its drop-ins: %w", err)
		}
	}
	if err := d.Systemd.Disable(ctx, dep.unit); err != nil { // with a daemon-reload: its generator removes the drop-in
		return err
	}
	return d.Systemd.ResetFailed(ctx, dep.unit)
}

// printKept prints the files that a removal keeps.
func (d *Dependencies) printKept(dep dependency) {
	if dep.hasState() {
		d.print("Its state stays: %s (--purge removes it)", dep.state[0])
	}
	if settingsfile.Exists(dep.dropIns) {
		d.print("The drop-ins of systemctl edit stay: %s (--purge removes them)", dep.dropIns)
	}
}
