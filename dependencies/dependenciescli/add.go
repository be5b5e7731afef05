package dependenciescli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"codex-proxy/dependencies/dependenciescheck"
	"codex-proxy/dependencies/dependencyconfig"
	"codex-proxy/internal/settingsfile"
	"codex-proxy/units"
)

// Add makes a dependency: its file, and with it its unit. It starts nothing.
func (d *Dependencies) Add(ctx context.Context, name string) error {
	file := d.of(name).file
	if settingsfile.Exists(file) {
		return thereIsOne(name, file)
	}
	preset, text, err := d.preset(name)
	if err == nil {
		text, err = place(named(text, name), os.Getenv("PATH"))
	}
	if err != nil {
		return err
	}
	settings, err := dependencyconfig.Parse(file, []byte(text))
	if err != nil {
		return fmt.Errorf("cannot use the preset %s: %w", preset, err)
	}
	if err := settingsfile.WriteNew(file, text); err != nil {
		return err
	}
	if err := d.Systemd.DaemonReload(ctx); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	d.print("The dependency %s is made of the preset %s: %s, %s.", name, preset, file, units.Dependency(name))
	d.printNext(settings)
	return nil
}

func thereIsOne(name, file string) error {
	return fmt.Errorf("there is a dependency %q already: %s", name, file)
}

// printNext prints the next steps of the operator.
func (d *Dependencies) printNext(s *dependencyconfig.Settings) {
	if faults := dependenciescheck.Faults(s); len(faults) > 0 {
		for _, fault := range faults {
			d.print("Before it can start: %s", fault)
		}
		d.print("After a change of the file: codex-proxy dependencies check %s && systemctl daemon-reload", s.Name)
	}
	d.print("Start it: systemctl start codex-dependency@%s", s.Name)
	d.print("Start it at boot, too: systemctl enable codex-dependency@%s", s.Name)
}
