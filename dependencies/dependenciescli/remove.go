package dependenciescli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"codex-proxy/units"
	"codex-proxy/units/requires"
)

// Remove stops a dependency and removes it. While settings require it, that is an error.
func (d *Dependencies) Remove(ctx context.Context, name string) error {
	file, unit := d.fileOf(name), units.Dependency(name)
	if !exists(file) && (!d.Purge || !d.hasState(name)) {
		return fmt.Errorf("there is no dependency %q; codex-proxy dependencies list shows what there is", name)
	}
	if err := d.notRequired(name); err != nil {
		return err
	}
	if err := d.takeDown(ctx, unit, file); err != nil {
		return err
	}
	d.print("The dependency %s is removed.", name)
	if d.Purge {
		if err := d.removeState(name); err != nil {
			return fmt.Errorf("cannot remove its state: %w", err)
		}
	}
	d.printKept(name, d.dropInsOf(unit))
	return nil
}

// notRequired is the error of a dependency that settings require, or may require.
func (d *Dependencies) notRequired(name string) error {
	all, err := requires.All(d.Etc)
	if err != nil {
		return fmt.Errorf("it is not known what requires %s: %w", name, err)
	}
	var files []string
	for _, by := range all {
		if len(requires.Of([]requires.By{by}, name)) > 0 {
			files = append(files, by.File)
		}
	}
	if len(files) == 0 {
		return nil
	}
	needing, verb := requires.Of(all, name), "requires"
	if len(needing) > 1 {
		verb = "require"
	}
	return fmt.Errorf("%s %s %s: take it out of `requires` in %s, then systemctl daemon-reload",
		strings.Join(needing, ", "), verb, name, strings.Join(files, ", "))
}

// takeDown stops the unit and takes it away.
func (d *Dependencies) takeDown(ctx context.Context, unit, file string) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	if err := d.Systemd.Stop(ctx, unit); err != nil {
		return err
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the file: %w", err)
	}
	if d.Purge {
		if err := os.RemoveAll(d.dropInsOf(unit)); err != nil {
			return fmt.Errorf("cannot remove its drop-ins: %w", err)
		}
	}
	if err := d.Systemd.Disable(ctx, unit); err != nil { // with a daemon-reload: its generator removes the drop-in
		return err
	}
	return d.Systemd.ResetFailed(ctx, unit)
}

// dropInsOf is the directory that `systemctl edit` has made for the unit.
func (d *Dependencies) dropInsOf(unit string) string { return filepath.Join(d.Units, unit+".d") }

// stateOf are the places of the state: with a dynamic user the first one is a link to the second one.
func (d *Dependencies) stateOf(name string) []string {
	return []string{filepath.Join(d.States, name), filepath.Join(d.PrivateStates, name)}
}

func (d *Dependencies) hasState(name string) bool {
	for _, path := range d.stateOf(name) {
		if exists(path) {
			return true
		}
	}
	return false
}

func (d *Dependencies) removeState(name string) error {
	var errs []error
	for _, path := range d.stateOf(name) {
		errs = append(errs, os.RemoveAll(path))
	}
	return errors.Join(errs...)
}

// printKept prints the files that a removal keeps.
func (d *Dependencies) printKept(name, dropIns string) {
	if d.hasState(name) {
		d.print("Its state stays: %s (--purge removes it)", filepath.Join(d.States, name))
	}
	if exists(dropIns) {
		d.print("The drop-ins of systemctl edit stay: %s (--purge removes them)", dropIns)
	}
}
