package dependencyconfig

import (
	"codex-proxy/internal/settingsfile"
	"codex-proxy/units"
)

// Generate writes a drop-in into dir, systemd's directory of generated units, for each valid file of the directory
// settings. A file with a fault has none: the unit's own command reports the fault. The error joins all faults.
func Generate(settings, dir string) error {
	return files.Generate(settings, func(file string) error {
		s, err := Load(file)
		if err != nil {
			return err
		}
		return settingsfile.WriteDropIn(dir, units.Dependency(s.Name), s.DropIn())
	})
}
