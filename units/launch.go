package units

import (
	"context"
	"fmt"

	"github.com/godbus/dbus/v5"
)

// Property is a setting of a unit's cgroup that systemd can change while the unit runs or before it starts, such as
// MemoryMax or TasksMax, by its name and type t in org.freedesktop.systemd1(5).
type Property struct {
	Name  string
	Value uint64
}

// setting is a Property on the wire.
type setting struct {
	Name  string
	Value dbus.Variant
}

// StartWith is Start after properties were set until the next boot (SetUnitProperties with runtime). systemd keeps
// them in files below /run/systemd/system.control.
func (m *Manager) StartWith(ctx context.Context, unit string, properties ...Property) error {
	settings := make([]setting, len(properties))
	for i, p := range properties {
		settings[i] = setting{p.Name, dbus.MakeVariant(p.Value)}
	}
	return m.job(ctx, "start", "StartUnit", unit, func(ctx context.Context, b *bus) error {
		return refusal(b.manager(ctx, "SetUnitProperties", unit, true, settings).Err)
	})
}

// listed is a unit of ListUnitsByPatterns.
type listed struct {
	Name, Description, Load, Active, Sub, Following string

	Path    dbus.ObjectPath
	Job     uint32
	JobType string
	JobPath dbus.ObjectPath
}

// List returns the units that systemd has in memory and whose names match one of the patterns of glob(7). Of a State
// it has the name, the three states and JobPending.
func (m *Manager) List(ctx context.Context, patterns ...string) ([]State, error) {
	var units []listed
	err := m.ask(ctx, func(ctx context.Context, b *bus) error {
		return refusal(b.manager(ctx, "ListUnitsByPatterns", []string{}, patterns).Store(&units))
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list units: %w", err)
	}
	states := make([]State, len(units))
	for i, u := range units {
		states[i] = State{
			Unit: u.Name, LoadState: u.Load, ActiveState: u.Active, SubState: u.Sub, JobPending: u.Job != 0,
		}
	}
	return states, nil
}
