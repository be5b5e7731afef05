// Package properties reads the properties of a unit over the bus, and keeps the newest value of each.
package properties

import (
	"strings"

	"github.com/godbus/dbus/v5"
)

// UnitIface is the interface of the properties that units of all types have.
const UnitIface = "org.freedesktop.systemd1.Unit"

// Property is one that we read, with its type in org.freedesktop.systemd1(5).
// A value of another type is ignored.
type Property struct{ Iface, signature string }

// Set has properties by their names.
type Set map[string]Property

// Unit is a property of units of all types.
func Unit(signature string) Property { return Property{UnitIface, signature} }

// Service is a property of services.
func Service(signature string) Property { return Property{serviceIface, signature} }

// Socket is a property of sockets.
func Socket(signature string) Property { return Property{"org.freedesktop.systemd1.Socket", signature} }

// Holds reports whether the value has the property's type.
func (p Property) Holds(v dbus.Variant) bool { return v.Signature().String() == p.signature }

var unitProperties = Set{
	"LoadState":            Unit("s"),
	"ActiveState":          Unit("s"),
	"SubState":             Unit("s"),
	"InvocationID":         Unit("ay"),
	"Job":                  Unit("(uo)"),
	"StateChangeTimestamp": Unit("t"),

	"InactiveExitTimestamp": Unit("t"),

	"FragmentPath": Unit("s"),
	"DropInPaths":  Unit("as"),
}

const serviceIface = "org.freedesktop.systemd1.Service"

var serviceProperties = Set{
	"Result":                Service("s"),
	"StatusText":            Service("s"),
	"StatusErrno":           Service("i"),
	"MainPID":               Service("u"),
	"NRestarts":             Service("u"),
	"ExecMainCode":          Service("i"),
	"ExecMainStatus":        Service("i"),
	"ExecMainExitTimestamp": Service("t"),
	"RestartUSec":           Service("t"),
	"RestartUSecNext":       Service("t"),
}

// Of returns the properties of a state for a unit of that type.
func Of(unit string) Set {
	all := make(Set)
	for name, p := range unitProperties {
		all[name] = p
	}
	switch {
	case strings.HasSuffix(unit, ".service"):
		for name, p := range serviceProperties {
			all[name] = p
		}
	case strings.HasSuffix(unit, ".socket"):
		all["Result"] = Socket("s")
	}
	return all
}
