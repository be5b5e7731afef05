package dependenciescli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"codex-proxy/internal/settingsfile"
	"codex-proxy/units/requires"
)

// dependency is the unit of a dependency and its places.
type dependency struct {
	name, unit string
	file       string   // of its settings
	dropIns    string   // the directory that `systemctl edit` has made for the unit
	state      []string // the places of its state: with a dynamic user the first one is a link to the second one
}

// notRequired is the error of a dependency that the settings in a directory require, or may require.
func (d dependency) notRequired(settings string) error {
	all, err := requires.All(settings)
	if err != nil {
		return fmt.Errorf("it is not known what requires %s: %w", d.name, err)
	}
	var files []string
	for _, by := range all {
		if len(requires.Of([]requires.By{by}, d.name)) > 0 {
			files = append(files, by.File)
		}
	}
	if len(files) == 0 {
		return nil
	}
	needing, verb := requires.Of(all, d.name), "requires"
	if len(needing) > 1 {
		verb = "require"
	}
	return fmt.Errorf("%s %s %s: take it out of `requires` in %s, then systemctl daemon-reload",
		strings.Join(needing, ", "), verb, d.name, strings.Join(files, ", "))
}

func (d dependency) hasState() bool { return slices.ContainsFunc(d.state, settingsfile.Exists) }

func (d dependency) removeState() error {
	var errs []error
	for _, path := range d.state {
		errs = append(errs, os.RemoveAll(path))
	}
	return errors.Join(errs...)
}
