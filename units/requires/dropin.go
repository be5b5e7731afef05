package requires

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"codex-proxy/internal/paths"
	"codex-proxy/units"
)

// Generate writes into dir, systemd's directory of generated units, a drop-in for each unit
// that requires dependencies, by the files below settings, /etc/codex-proxy; and one for each
// dependency to which a unit is bound. The error joins all faults: a file with a fault has no
// drop-in, and changes nothing for the others.
func Generate(settings, dir string) error {
	all, err := All(settings)
	errs := []error{err}
	for _, b := range all {
		errs = append(errs, write(dir, b.Unit, "60-requires.conf", b.dropIn()))
	}
	for _, name := range Names(all) {
		if bound := boundTo(all, name); len(bound) > 0 {
			errs = append(errs, write(dir, units.Dependency(name), "60-bound.conf", hooks(bound)))
		}
	}
	return errors.Join(errs...)
}

func write(dir, unit, file, text string) error {
	of := filepath.Join(dir, unit+".d")
	if err := os.MkdirAll(of, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(of, file), []byte(text), 0o644)
}

// dropIn orders the unit after its dependencies, and starts them with it. The names need no
// escaping in unit files.
func (b By) dropIn() string {
	needs := make([]string, 0, len(b.Requires))
	for _, name := range b.Requires {
		needs = append(needs, units.Dependency(name))
	}
	by := "Wants="
	if b.BindRequires {
		by = "BindsTo="
	}
	list := strings.Join(needs, " ")
	return fmt.Sprintf("# Made of %s at a daemon-reload: edit that file.\n[Unit]\n%s%s\nAfter=%s\n", b.File, by, list,
		list)
}

// boundTo are the units that are bound to the dependency called name.
func boundTo(all []By, name string) (bound []string) {
	for _, b := range all {
		if b.BindRequires && slices.Contains(b.Requires, name) {
			bound = append(bound, b.Unit)
		}
	}
	return bound
}

// hooks start the bound units again with the dependency: with BindsTo= alone they stay
// stopped after its automatic restart (measured with systemd 252 and 257). The two commands
// run as root (+), and never make the dependency fail (-).
func hooks(bound []string) string {
	list := strings.Join(bound, " ")
	return fmt.Sprintf("# Made of bind_requires at a daemon-reload.\n[Service]\n"+
		"ExecStartPost=-+%[1]s dependency-bound start %%i %[2]s\n"+
		"ExecStopPost=-+%[1]s dependency-bound record %%i %[2]s\n", paths.Program, list)
}
