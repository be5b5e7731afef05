package dependenciescli

import (
	"context"
	"slices"

	"codex-proxy/dependencies/dependencyconfig"
	"codex-proxy/internal/listing"
	"codex-proxy/probes"
	"codex-proxy/units/requires"
	"codex-proxy/workers/control"
)

// list is the table of `codex-proxy dependencies list`.
type list struct {
	Dependencies []row `json:"dependencies"`
}

// List prints the dependencies that have a file, and those that settings require. It needs systemd alone; from a
// running service it takes the number of restarts.
func (d *Dependencies) List(ctx context.Context, _ string) error {
	if d.Watch {
		d.warned = map[string]bool{}
	}
	l := listing.Listing[list]{Stdout: d.Stdout, JSON: d.JSON, Watch: d.Watch, Collect: d.collect, Write: writeList,
		Changes: func(ctx context.Context, changed func()) error {
			return control.NewClient(d.Socket).Changes(ctx, []string{"dependencies"}, changed)
		}}
	return l.Run(ctx)
}

func (d *Dependencies) collect(ctx context.Context) (list, error) {
	names, err := dependencyconfig.Names(d.Settings)
	switch {
	case err != nil && len(names) == 0:
		return list{}, err
	case err != nil: // there are more files than systemd gets units for
		d.warn("%v", err)
	}
	required := d.required()
	names = append(names, requires.Names(required)...)
	slices.Sort(names)
	known := d.known(ctx)
	rows, err := listing.Each(ctx, slices.Compact(names), func(ctx context.Context, name string) (row, error) {
		dep := d.of(name)
		unit, err := d.describe(ctx, dep.unit)
		if err != nil {
			return row{}, err
		}
		r := rowOf(name, dep.file, requires.Of(required, name), unit)
		r.counted(known)
		return r, nil
	})
	return list{Dependencies: rows}, err
}

// required is the requirements of the settings. A fault of a file is printed: it hides the requirements of that file.
func (d *Dependencies) required() []requires.By {
	all, err := requires.All(d.Etc)
	if err != nil {
		d.warn("What requires the dependencies is not fully known: %v", err)
	}
	return all
}

// state is the counts of a running service.
func (d *Dependencies) known(ctx context.Context) []probes.Dependency {
	report, _, err := control.NewClient(d.Socket).Status(ctx)
	if err != nil {
		return nil // systemd knows all but the number of earlier restarts
	}
	return report.Dependencies
}

// warn prints a line for people, once however often a watch comes to it.
func (d *Dependencies) warn(format string, args ...any) {
	if d.Watch {
		if d.warned[format] {
			return
		}
		d.warned[format] = true
	}
	d.print(format, args...)
}
