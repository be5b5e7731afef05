package units

import (
	"context"

	"github.com/godbus/dbus/v5"
)

// Stopping reports whether systemd is stopping our own unit: its ActiveState is
// "deactivating" (org.freedesktop.systemd1.Unit). After `systemctl kill` alone it
// is not.
func (m *Manager) Stopping(ctx context.Context) (stopping bool, err error) {
	err = m.ask(ctx, func(ctx context.Context, b *bus) error {
		unit, err := b.ownUnit(ctx)
		if err != nil {
			return err
		}
		var state string
		err = b.property(ctx, unit, "Unit", "ActiveState", &state)
		stopping = state == "deactivating"
		return err
	})
	return stopping, err
}

// ownUnit is the object of our own unit.
func (b *bus) ownUnit(ctx context.Context) (unit dbus.ObjectPath, err error) {
	const ourselves = uint32(0)
	err = b.manager(ctx, "GetUnitByPID", ourselves).Store(&unit)
	return unit, refusal(err)
}
