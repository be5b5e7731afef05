package properties

import (
	"context"
	"fmt"

	"github.com/godbus/dbus/v5"

	"codex-proxy/units/bus"
)

// Answer is the reply to one property read. The value is missing when systemd
// knows no such property.
type Answer struct {
	name  string
	value any
	seq   dbus.Sequence
}

// Read asks for the named properties of one unit, all at once: fifteen Gets cost
// systemd a third of the two GetAlls, which render some 450 properties.
func Read(ctx context.Context, b *bus.Conn, path dbus.ObjectPath, known Set, names []string) ([]Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, bus.CallTimeout)
	defer cancel()
	unit := b.Object(bus.ManagerName, path)
	calls := make([]*dbus.Call, len(names))
	for i, name := range names {
		calls[i] = unit.GoWithContext(ctx, "org.freedesktop.DBus.Properties.Get", dbus.FlagNoAutoStart,
			nil, known[name].Iface, name)
	}
	answers := make([]Answer, len(names))
	for i, name := range names {
		var err error
		if answers[i], err = newAnswer(name, known[name], <-calls[i].Done); err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", name, err)
		}
	}
	return answers, nil
}

// newAnswer reads a reply. An error that systemd has no such property, or no object
// for the unit, is an answer too; other errors are not.
func newAnswer(name string, p Property, call *dbus.Call) (Answer, error) {
	a := Answer{name: name, value: missing{}, seq: call.ResponseSequence}
	var v dbus.Variant
	err := call.Store(&v)
	switch {
	case err == nil && p.Holds(v):
		a.value = v.Value()
	case err != nil && !bus.IsError(err,
		"org.freedesktop.DBus.Error.UnknownProperty",
		"org.freedesktop.DBus.Error.UnknownInterface",
		"org.freedesktop.DBus.Error.UnknownObject",
		"org.freedesktop.DBus.Error.UnknownMethod",
		"org.freedesktop.systemd1.NoSuchUnit"):
		return Answer{}, err
	}
	return a, nil
}
