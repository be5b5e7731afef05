// Package remotescheck checks the remotes of an installation: the requirements of each start, the units, and whether
// people can attach.
package remotescheck

import (
	"path/filepath"

	"codex-proxy/internal/checkup"
	"codex-proxy/internal/paths"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/units"
	"codex-proxy/units/survey"
	"codex-proxy/workers/codexhome"
	"codex-proxy/workers/workerscheck"
)

// room is the remotes, as their check sees them.
type room struct {
	*survey.Facts
	workerscheck.Host
	faults   func(*remoteconfig.Settings) []string
	accounts []string // of the installation
	all      []distant
	err      error // of their directory
}

// New returns the remotes' part of an installation. faults is Faults on this machine.
func New(f *survey.Facts, h workerscheck.Host, faults func(*remoteconfig.Settings) []string,
	accounts []string) survey.Room {
	r := &room{Facts: f, Host: h, faults: faults, accounts: accounts}
	r.find()
	unit := units.Remote("x")
	out := survey.Room{
		Rights: []survey.Right{
			{User: paths.User, Unit: unit, Verb: "reset-failed", May: true}, {User: paths.User, Unit: unit,
				Verb: "start"},
		},
		Checks: []checkup.Check{{Name: "remotes", Stage: checkup.Features, Run: r.remotes}},
	}
	for _, d := range r.all {
		out.Units = append(out.Units, survey.Unit{Name: d.unit()}, survey.Unit{Name: d.socket()})
		out.Homes = append(out.Homes, survey.Home{Subject: d.subject(), Path: filepath.Join(paths.RemoteHomes, d.name),
			Unit: d.unit(), TraceLog: codexhome.IsTraceLog})
	}
	return out
}
