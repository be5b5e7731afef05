package dependency

import (
	"errors"
	"os"
	"path/filepath"

	"codex-proxy/units"
)

// Generate writes a drop-in into dir, systemd's directory of generated units, for each valid file of the directory
// settings. A file with a fault has none: the unit's own command reports the fault. The error joins all faults.
func Generate(settings, dir string) error {
	names, err := Names(settings)
	errs := []error{err}
	for _, name := range names {
		errs = append(errs, generate(filepath.Join(settings, name+".toml"), dir))
	}
	return errors.Join(errs...)
}

func generate(file, dir string) error {
	s, err := Load(file)
	if err != nil {
		return err
	}
	of := filepath.Join(dir, units.Dependency(s.Name)+".d")
	if err := os.MkdirAll(of, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(of, "50-settings.conf"), s.DropIn(), 0o644)
}
