package survey

import (
	"context"
	"io/fs"

	"codex-proxy/internal/checkup"
)

// Room is the part of an installation that one room of the program keeps, and the checks of it.
type Room struct {
	Units  []Unit
	Rules  []Rule
	Rights []Right
	Homes  []Home
	// Access, if not nil, finds faults of permissions that no rule describes.
	Access func() []checkup.Finding
	Checks []checkup.Check
}

// Unit is a unit that checks look at.
type Unit struct {
	Name    string
	Needed  bool   // it is installed, runs, and starts at boot
	User    string // it runs as this user; empty: that is not checked
	Watched bool   // it has a watchdog
}

// Right is a thing that a user may do with a unit, or may not.
type Right struct {
	User, Unit, Verb string
	May              bool
}

// Rule is the required ownership and mode of a file or directory.
type Rule struct {
	Path     string
	Owner    string // user
	Home     string // the user of this home of Unit is the owner, and the only reader
	Unit     string
	Group    string      // the group for the remedy
	Most     fs.FileMode // no more than these bits
	Readers  []string    // the users that must be able to read it, and to enter a directory
	Optional bool        // the first use makes it
	Made     string      // the command that makes it, if not systemd-tmpfiles
}

// Home is a home of codex.
type Home struct {
	Subject, Path, Unit string
	TraceLog            func(name string) bool // reports whether a file is part of codex's log of traces
}

// Examine asks systemd about the units of the rooms, and makes the checks of all.
func Examine(ctx context.Context, f *Facts, rooms []Room) checkup.Report {
	all := &whole{Facts: f, rooms: rooms}
	var names []string
	for _, u := range each(all, func(r Room) []Unit { return r.Units }) {
		names = append(names, u.Name)
	}
	f.Ask(ctx, names)
	checks := each(all, func(r Room) []checkup.Check { return r.Checks })
	return checkup.Examine(ctx, append(checks, all.checks()...))
}

// whole is the installation: the checks of it concern all rooms.
type whole struct {
	*Facts
	rooms []Room
}

// each is a thing that rooms bring, of all rooms.
func each[T any](w *whole, of func(Room) []T) (all []T) {
	for _, r := range w.rooms {
		all = append(all, of(r)...)
	}
	return all
}

func (w *whole) needed() (names []string) {
	for _, u := range each(w, func(r Room) []Unit { return r.Units }) {
		if u.Needed {
			names = append(names, u.Name)
		}
	}
	return names
}

func (w *whole) checks() []checkup.Check {
	return []checkup.Check{
		{Name: "systemd", Run: w.systemd},
		{Name: "units", Run: w.units},
		{Name: "users", Run: w.users},
		{Name: "permissions", Run: w.permissions},
		{Name: "bus", Run: w.bus},
		{Name: "polkit", Run: w.polkit},
		{Name: "homes", Stage: checkup.Files, Run: w.homes},
		{Name: "watchdog", Stage: checkup.Features, Run: w.watchdog},
		{Name: "cgroup", Stage: checkup.Machine, Run: w.cgroup},
		{Name: "clock", Stage: checkup.Machine, Run: w.clock},
	}
}
