package config

import (
	"path/filepath"
	"slices"

	"codex-proxy/dependencies/dependencyconfig"
	"codex-proxy/internal/paths"
	"codex-proxy/units"
	"codex-proxy/units/requires"
)

// Dependencies are the programs that systemd keeps running next to the workers.
type Dependencies struct {
	// Files are the names of those with a file, sorted.
	Files []string
	// Requires are the requirements of the service and its workers, the service first.
	Requires []requires.By
}

// Names are all dependencies, with a file or required, sorted.
func (d Dependencies) Names() []string {
	names := slices.Concat(d.Files, requires.Names(d.Requires))
	slices.Sort(names)
	return slices.Compact(names)
}

// Missing are those that a unit requires, and that have no file.
func (d Dependencies) Missing() []string {
	return slices.DeleteFunc(requires.Names(d.Requires), func(name string) bool {
		return slices.Contains(d.Files,
			name)
	})
}

func (r raw) checkRequires() error {
	if fault := r.Check(); fault != nil {
		return &misfit{fault.Key, fault.Text + "; " + fault.Remedy}
	}
	return nil
}

// dependencies reads the files of the dependencies and of these workers below dir. A fault of
// a worker's file is an error at the start of that worker alone.
func (r raw) dependencies(dir string, workers []string) (Dependencies, error) {
	files, err := dependencyconfig.Names(filepath.Join(dir, filepath.Base(paths.DependencySettings)))
	if err != nil {
		return Dependencies{}, err
	}
	d := Dependencies{Files: files}
	if len(r.Requires) > 0 {
		d.Requires = []requires.By{{Unit: paths.ServiceUnit, Settings: r.Settings}}
	}
	for _, name := range workers {
		file := filepath.Join(dir, filepath.Base(paths.WorkerSettings), name+".toml")
		by, _ := requires.Read(units.Worker(name), file)
		if len(by.Requires) > 0 {
			d.Requires = append(d.Requires, by)
		}
	}
	return d, nil
}
