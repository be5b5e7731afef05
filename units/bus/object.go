package bus

import (
	"context"
	"fmt"
	"strings"

	"github.com/godbus/dbus/v5"
)

// UnitPath returns the object path of a unit: its name escaped as sd-bus does
// (sd_bus_path_encode(3)). systemd loads the unit at the first use of the path, so
// a unit that isn't installed has a path too.
func UnitPath(unit string) dbus.ObjectPath {
	var b strings.Builder
	b.WriteString("/org/freedesktop/systemd1/unit/")
	for i := range len(unit) {
		c := unit[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if letter || i > 0 && c >= '0' && c <= '9' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return dbus.ObjectPath(b.String())
}

// OwnUnit is the object of our own unit.
func (b *Conn) OwnUnit(ctx context.Context) (unit dbus.ObjectPath, err error) {
	const ourselves = uint32(0)
	err = b.Call(ctx, "GetUnitByPID", ourselves).Store(&unit)
	return unit, Refusal(err)
}

// Property reads one property of one of systemd's objects, bounded.
func (b *Conn) Property(ctx context.Context, path dbus.ObjectPath, iface, name string, value any) error {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	var v dbus.Variant
	err := b.conn.Object(ManagerName, path).CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get",
		dbus.FlagNoAutoStart, ManagerName+"."+iface, name).Store(&v)
	if err != nil {
		return Refusal(err)
	}
	return v.Store(value)
}

// Object is an object of a service on the bus.
func (b *Conn) Object(service string, path dbus.ObjectPath) dbus.BusObject {
	return b.conn.Object(service, path)
}
