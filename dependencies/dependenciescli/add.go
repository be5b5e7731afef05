package dependenciescli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"codex-proxy/dependencies/dependency"
	"codex-proxy/units"
)

// Add makes a dependency: its file, and with it its unit. It starts nothing.
func (d *Dependencies) Add(ctx context.Context, name string) error {
	file, unit := d.fileOf(name), units.Dependency(name)
	if exists(file) {
		return thereIsOne(name, file)
	}
	preset, text, err := d.preset(name)
	if err == nil {
		text, err = place(named(text, name), os.Getenv("PATH"))
	}
	if err != nil {
		return err
	}
	settings, err := dependency.Parse(file, []byte(text))
	if err != nil {
		return fmt.Errorf("cannot use the preset %s: %w", preset, err)
	}
	if err := writeNew(file, text); err != nil {
		return err
	}
	if err := d.Systemd.DaemonReload(ctx); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	d.print("The dependency %s is made of the preset %s: %s, %s.", name, preset, file, unit)
	d.printNext(settings)
	return nil
}

func thereIsOne(name, file string) error {
	return fmt.Errorf("there is a dependency %q already: %s", name, file)
}

// printNext prints the next steps of the operator.
func (d *Dependencies) printNext(s *dependency.Settings) {
	if faults := faultsOf(s); len(faults) > 0 {
		for _, fault := range faults {
			d.print("Before it can start: %s", fault)
		}
		d.print("After a change of the file: codex-proxy dependencies check %s && systemctl daemon-reload", s.Name)
	}
	d.print("Start it: systemctl start codex-dependency@%s", s.Name)
	d.print("Start it at boot, too: systemctl enable codex-dependency@%s", s.Name)
}

// writeNew writes a file in one step, unless there is one.
func writeNew(file, text string) error {
	f, err := os.CreateTemp(filepath.Dir(file), ".new-*")
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", file, err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err == nil {
		err = os.Link(f.Name(), file)
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already", file)
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", file, err)
	}
	return nil
}
