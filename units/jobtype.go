package units

import (
	"context"
	"fmt"

	"github.com/godbus/dbus/v5"
)

// Job returns what systemd is doing to the unit: "start", "stop", "restart",
// "reload" and so on, or nothing.
func (m *Manager) Job(ctx context.Context, unit string) (string, error) {
	var kind string
	err := m.ask(ctx, func(ctx context.Context, b *bus) error {
		var path dbus.ObjectPath
		if err := b.manager(ctx, "GetUnit", unit).Store(&path); err != nil {
			return refusal(err)
		}
		var job struct {
			ID   uint32
			Path dbus.ObjectPath
		}
		if err := b.property(ctx, path, "Unit", "Job", &job); err != nil || job.ID == 0 {
			return err
		}
		return b.property(ctx, job.Path, "Job", "JobType", &kind)
	})
	if err != nil {
		return "", fmt.Errorf("cannot find the job of %s: %w", unit, err)
	}
	return kind, nil
}

// property reads one property of one of systemd's objects, bounded.
func (b *bus) property(ctx context.Context, path dbus.ObjectPath, iface, name string, value any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var v dbus.Variant
	err := b.conn.Object(managerName, path).CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get",
		dbus.FlagNoAutoStart, managerName+"."+iface, name).Store(&v)
	if err != nil {
		return refusal(err)
	}
	return v.Store(value)
}
