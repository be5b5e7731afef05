package units

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// Description is a unit's State and its settings. Fields that the unit's type
// lacks are zero.
type Description struct {
	State
	FileState   string   // enabled, disabled, static, masked, … (systemctl(1), is-enabled)
	NeedReload  bool     // its files have changed since systemd read them
	WantedBy    []string // the units that start it at their own start, by Wants= or Requires=
	User        string
	UID         uint32        // of User while the unit runs; NoUID: it has none then
	Environment []string      // Environment=, as NAME=VALUE
	Watchdog    time.Duration // WatchdogSec=, 0: not set
	WatchdogAge time.Duration // since the last WATCHDOG=1, or since the start
	Listen      []string      // ListenStream=, of a socket

	// Times since the boot of the last change from inactive or failed, from active, and to
	// inactive or failed; 0: none since systemd has loaded the unit.
	LeftInactive, LeftActive, BecameInactive time.Duration
}

// NoUID is the UID of a unit that does not run, or that has no user.
const NoUID = 1<<32 - 1

// described are the properties that a Description has in addition to a State.
var described = map[string]property{
	"UnitFileState":    {unitIface, "s"},
	"NeedDaemonReload": {unitIface, "b"},
	"WantedBy":         {unitIface, "as"},
	"RequiredBy":       {unitIface, "as"},

	"InactiveExitTimestampMonotonic":  {unitIface, "t"},
	"ActiveExitTimestampMonotonic":    {unitIface, "t"},
	"InactiveEnterTimestampMonotonic": {unitIface, "t"},

	"User":                       {serviceIface, "s"},
	"UID":                        {serviceIface, "u"},
	"Environment":                {serviceIface, "as"},
	"WatchdogUSec":               {serviceIface, "t"},
	"WatchdogTimestampMonotonic": {serviceIface, "t"},

	"Listen": {"org.freedesktop.systemd1.Socket", "a(ss)"},
}

// Describe asks systemd for a unit once. A unit that is not installed is no
// error: see LoadState.
func (m *Manager) Describe(ctx context.Context, unit string) (Description, error) {
	known := propertiesOf(unit)
	maps.Copy(known, described)
	f := make(facts)
	err := m.ask(ctx, func(ctx context.Context, b *bus) error {
		answers, err := b.properties(ctx, dbus.ObjectPath(unitPath(unit)), known, slices.Collect(maps.Keys(known)))
		for _, a := range answers {
			f.learn(a.name, a.value, a.seq)
		}
		return refusal(err)
	})
	if err != nil {
		return Description{}, fmt.Errorf("cannot ask systemd about %s: %w", unit, err)
	}
	return f.description(unit), nil
}

// Version is systemd's own version as it reports it, such as "257.13-1~deb13u1".
func (m *Manager) Version(ctx context.Context) (string, error) {
	var version string
	err := m.ask(ctx, func(ctx context.Context, b *bus) error {
		return b.property(ctx, managerPath, "Manager", "Version", &version)
	})
	if err != nil {
		return "", fmt.Errorf("cannot ask systemd for its version: %w", err)
	}
	return version, nil
}

func (f facts) description(unit string) Description {
	reload, _ := f["NeedDaemonReload"].value.(bool)
	uid, known := f["UID"].value.(uint32)
	if !known {
		uid = NoUID
	}
	return Description{
		State: f.state(unit), FileState: f.text("UnitFileState"), NeedReload: reload,
		WantedBy: append(f.texts("WantedBy"), f.texts("RequiredBy")...),
		User:     f.text("User"), UID: uid, Environment: f.texts("Environment"),
		Watchdog: f.duration("WatchdogUSec"), WatchdogAge: f.age("WatchdogTimestampMonotonic"),
		Listen: f.streams(), LeftInactive: f.duration("InactiveExitTimestampMonotonic"),
		LeftActive:     f.duration("ActiveExitTimestampMonotonic"),
		BecameInactive: f.duration("InactiveEnterTimestampMonotonic"),
	}
}

func (f facts) texts(name string) []string {
	list, _ := f[name].value.([]string)
	return list
}

func (f facts) duration(name string) time.Duration {
	usec, _ := f[name].value.(uint64)
	if usec == unset {
		return 0
	}
	return time.Duration(usec) * time.Microsecond
}

// unset is systemd's "infinity", the value of some times of a unit that never ran.
const unset = 1<<64 - 1

// age is the time since a timestamp of CLOCK_MONOTONIC; 0 for one never set.
func (f facts) age(name string) time.Duration {
	at := f.duration(name)
	var now unix.Timespec
	if at == 0 || unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return 0
	}
	return max(0, time.Duration(now.Nano())-at)
}

// streams are the addresses of a socket that accept connections.
func (f facts) streams() []string {
	list, _ := f["Listen"].value.([][]any)
	var streams []string
	for _, l := range list {
		if len(l) == 2 && l[0] == "Stream" {
			address, _ := l[1].(string)
			streams = append(streams, address)
		}
	}
	return streams
}
