package unitstest

import (
	"maps"
	"path/filepath"
	"slices"

	"github.com/godbus/dbus/v5"
)

// listed is a unit as ListUnitsByPatterns returns it.
type listed struct {
	Name, Description, Load, Active, Sub, Following string

	Path    dbus.ObjectPath
	Job     uint32
	JobType string
	JobPath dbus.ObjectPath
}

// list returns the units whose names match one of the patterns, with the lock held.
func (m *Systemd) list(patterns []string) []listed {
	all := []listed{}
	for _, name := range slices.Sorted(maps.Keys(m.units)) {
		if !slices.ContainsFunc(patterns, func(p string) bool { ok, _ := filepath.Match(p, name); return ok }) {
			continue
		}
		now := m.units[name].now
		job, _ := now["Job"].(Job)
		all = append(all, listed{
			Name: name, Load: now["LoadState"].(string), Active: now["ActiveState"].(string),
			Sub: now["SubState"].(string), Path: unitPath(name), Job: job.ID, JobPath: job.Path,
		})
	}
	return all
}

// Control returns the values of the properties that SetUnitProperties has set on the unit.
func (u *Unit) Control() map[string]any {
	u.systemd.mu.Lock()
	defer u.systemd.mu.Unlock()
	return maps.Clone(u.control)
}

func (u *Unit) setControl(settings any) {
	if u.control == nil {
		u.control = map[string]any{}
	}
	for _, s := range settings.([][]any) {
		u.control[s[0].(string)] = s[1].(dbus.Variant).Value()
	}
}
