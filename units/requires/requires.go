// Package requires reads which dependencies the service and its workers require, and writes
// the drop-ins by which systemd starts, orders and binds their units.
package requires

import (
	"fmt"
	"slices"

	"codex-proxy/units"
)

// Settings are the keys that config.toml and a worker's file have in common. Their
// references, packaging/etc/config.toml and packaging/etc/workers/default.toml, explain them.
type Settings struct {
	Requires      []string `toml:"requires"` // names of dependencies, in the order of the file
	BindRequires  bool     `toml:"bind_requires"`
	ReadyRequires bool     `toml:"ready_requires"`
}

// most bounds the names in one file.
const most = 32

// Fault is a value that does not fit.
type Fault struct{ Key, Text, Remedy string }

// Check returns the first fault of the values, or nil.
func (s Settings) Check() *Fault {
	if len(s.Requires) > most {
		return &Fault{"requires", fmt.Sprintf("requires names %d dependencies", len(s.Requires)),
			fmt.Sprintf("name at most %d", most)}
	}
	for i, name := range s.Requires {
		if err := units.ValidDependencyName(name); err != nil {
			return &Fault{"requires", fmt.Sprintf("requires: %v", err),
				"use names that `codex-proxy dependencies list` shows"}
		}
		if slices.Contains(s.Requires[:i], name) {
			return &Fault{"requires", fmt.Sprintf("requires: %q stands there twice", name), "remove one of them"}
		}
	}
	for _, option := range []struct {
		key string
		set bool
	}{{"bind_requires", s.BindRequires}, {"ready_requires", s.ReadyRequires}} {
		if option.set && len(s.Requires) == 0 {
			return &Fault{option.key, option.key + " = true, and requires names no dependency",
				"name one in requires, or remove " + option.key}
		}
	}
	return nil
}

// By has the requirements of one unit.
type By struct {
	Unit string
	File string
	Settings
}

// Of are the units that require the dependency called name, in the order of all.
func Of(all []By, name string) (by []string) {
	for _, b := range all {
		if slices.Contains(b.Requires, name) {
			by = append(by, b.Unit)
		}
	}
	return by
}

// Names are the dependencies that any unit requires, sorted.
func Names(all []By) (names []string) {
	for _, b := range all {
		names = append(names, b.Requires...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
