package unitstest

import (
	"fmt"
	"maps"
	"strings"

	"github.com/godbus/dbus/v5"
)

// Properties are a unit's D-Bus properties by name, in the Go types of those in
// org.freedesktop.systemd1(5): string, uint32, int32, uint64 (microseconds), []byte,
// and Job.
type Properties map[string]any

// Job is the value of the property Job.
type Job struct {
	ID   uint32
	Path dbus.ObjectPath
}

var noJob = Job{Path: "/"}

const propertiesIface = "org.freedesktop.DBus.Properties"

// ofUnit are the properties of the Unit interface; the rest is the service's.
var ofUnit = map[string]bool{
	"LoadState": true, "ActiveState": true, "SubState": true,
	"InvocationID": true, "Job": true, "StateChangeTimestamp": true, "InactiveExitTimestamp": true,
	"FragmentPath": true, "DropInPaths": true, "InactiveExitTimestampMonotonic": true,
	"ActiveExitTimestampMonotonic": true, "InactiveEnterTimestampMonotonic": true,
	"Id": true, "UnitFileState": true, "NeedDaemonReload": true, "WantedBy": true, "RequiredBy": true,
}

// silent are the properties that PropertiesChanged never carries.
var silent = map[string]bool{
	"LoadState": true, "FragmentPath": true, "DropInPaths": true,
	"RestartUSec": true, "RestartUSecNext": true, "RestartSteps": true,
}

// fresh are the properties of a unit that never ran.
func fresh(loadState string) Properties {
	return Properties{
		"LoadState": loadState, "ActiveState": "inactive", "SubState": "dead",
		"InvocationID": []byte{}, "Job": noJob,
		"StateChangeTimestamp": uint64(0), "InactiveExitTimestamp": uint64(0),
		"Result": "success", "StatusText": "", "StatusErrno": int32(0), "MainPID": uint32(0), "NRestarts": uint32(0),
		"ExecMainCode": int32(0), "ExecMainStatus": int32(0), "ExecMainExitTimestamp": uint64(0),
		"RestartUSec": uint64(200_000), "RestartUSecNext": uint64(200_000), "RestartSteps": uint32(6),
		"FragmentPath": "", "DropInPaths": []string{},
	}
}

type signal struct {
	path dbus.ObjectPath
	name string
	body []any
}

// changes are the two signals by which systemd announces a change: one with all of
// the service's properties, then one with all of the unit's.
func changes(unit string, p Properties) []signal {
	service, generic := map[string]dbus.Variant{}, map[string]dbus.Variant{}
	for name, value := range p {
		switch {
		case silent[name]:
		case ofUnit[name]:
			generic[name] = dbus.MakeVariant(value)
		default:
			service[name] = dbus.MakeVariant(value)
		}
	}
	return []signal{
		changed(unit, typeIface(unit), service, "ExecStart", "ExecStartEx"),
		changed(unit, "org.freedesktop.systemd1.Unit", generic, "Conditions", "Asserts"),
	}
}

func changed(unit, iface string, values map[string]dbus.Variant, invalidated ...string) signal {
	return signal{unitPath(unit), propertiesIface + ".PropertiesChanged", []any{iface, values, invalidated}}
}

func typeIface(unit string) string {
	if strings.HasSuffix(unit, ".socket") {
		return "org.freedesktop.systemd1.Socket"
	}
	return "org.freedesktop.systemd1.Service"
}

// unitPath escapes a unit's name as sd_bus_path_encode(3) does.
func unitPath(unit string) dbus.ObjectPath {
	path := "/org/freedesktop/systemd1/unit/"
	for i, c := range []byte(unit) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', i > 0 && c >= '0' && c <= '9':
			path += string(c)
		default:
			path += fmt.Sprintf("_%02x", c)
		}
	}
	return dbus.ObjectPath(path)
}

func (p Properties) with(changes Properties) Properties {
	merged := maps.Clone(p)
	maps.Copy(merged, changes)
	return merged
}
