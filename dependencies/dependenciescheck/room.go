// Package dependenciescheck checks the dependencies of an installation: the requirements of each start, the units, the
// answers, and the resources that two of them share.
package dependenciescheck

import (
	"context"

	"codex-proxy/dependencies/dependencyconfig"
	"codex-proxy/internal/checkup"
	"codex-proxy/internal/paths"
	"codex-proxy/units"
	"codex-proxy/units/survey"
)

// Host is the part of the machine that only this check uses.
type Host struct {
	// Probe asks a dependency once whether it works, and returns a few words about it.
	Probe func(ctx context.Context, p dependencyconfig.Probe) (detail string, err error)
	// Faults is Faults on this machine.
	Faults func(s *dependencyconfig.Settings) []string
}

// room is the dependencies, as their check sees them.
type room struct {
	*survey.Facts
	Host
	all []dependent
	err error // of their directory
}

// New returns the dependencies' part of an installation.
func New(f *survey.Facts, h Host) survey.Room {
	r := &room{Facts: f, Host: h}
	r.find()
	unit := units.Dependency("x")
	out := survey.Room{
		Rights: []survey.Right{
			{User: paths.User, Unit: unit, Verb: "reset-failed", May: true}, {User: paths.User, Unit: unit,
				Verb: "start"},
		},
		Checks: []checkup.Check{{Name: "dependencies", Stage: checkup.Features, Run: r.dependencies}},
	}
	for _, d := range r.all {
		out.Units = append(out.Units, survey.Unit{Name: d.unit()})
	}
	return out
}
