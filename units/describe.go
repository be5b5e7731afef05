package units

import (
	"context"
	"maps"
	"slices"
	"time"

	"codex-proxy/units/bus"
	"codex-proxy/units/properties"
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
var described = properties.Set{
	"UnitFileState":    properties.Unit("s"),
	"NeedDaemonReload": properties.Unit("b"),
	"WantedBy":         properties.Unit("as"),
	"RequiredBy":       properties.Unit("as"),

	"InactiveExitTimestampMonotonic":  properties.Unit("t"),
	"ActiveExitTimestampMonotonic":    properties.Unit("t"),
	"InactiveEnterTimestampMonotonic": properties.Unit("t"),

	"User":                       properties.Service("s"),
	"UID":                        properties.Service("u"),
	"Environment":                properties.Service("as"),
	"WatchdogUSec":               properties.Service("t"),
	"WatchdogTimestampMonotonic": properties.Service("t"),

	"Listen": properties.Socket("a(ss)"),
}

// Describe asks systemd for a unit once. A unit that is not installed is no
// error: see LoadState.
func (m *Manager) Describe(ctx context.Context, unit string) (Description, error) {
	known := properties.Of(unit)
	maps.Copy(known, described)
	v := make(properties.Values)
	err := m.ask(ctx, "ask systemd about "+unit, func(ctx context.Context, b *bus.Conn) error {
		answers, err := properties.Read(ctx, b, bus.UnitPath(unit), known, slices.Collect(maps.Keys(known)))
		v.LearnAll(answers)
		return bus.Refusal(err)
	})
	if err != nil {
		return Description{}, err
	}
	return descriptionOf(unit, v), nil
}

// Version is systemd's own version as it reports it, such as "257.13-1~deb13u1".
func (m *Manager) Version(ctx context.Context) (string, error) {
	var version string
	err := m.ask(ctx, "ask systemd for its version", func(ctx context.Context, b *bus.Conn) error {
		return b.Property(ctx, bus.ManagerPath, "Manager", "Version", &version)
	})
	return version, err
}

// Stopping reports whether systemd is stopping our own unit: its ActiveState is
// "deactivating" (org.freedesktop.systemd1.Unit). After `systemctl kill` alone it
// is not.
func (m *Manager) Stopping(ctx context.Context) (stopping bool, err error) {
	err = m.with(ctx, unheard, func(ctx context.Context, b *bus.Conn) error {
		unit, err := b.OwnUnit(ctx)
		if err != nil {
			return err
		}
		var state string
		err = b.Property(ctx, unit, "Unit", "ActiveState", &state)
		stopping = state == "deactivating"
		return err
	})
	return stopping, err
}

func descriptionOf(unit string, v properties.Values) Description {
	reload, _ := properties.Value[bool](v, "NeedDaemonReload")
	uid, known := properties.Value[uint32](v, "UID")
	if !known {
		uid = NoUID
	}
	return Description{
		State: StateOf(unit, v), FileState: v.Text("UnitFileState"), NeedReload: reload,
		WantedBy: append(v.Texts("WantedBy"), v.Texts("RequiredBy")...),
		User:     v.Text("User"), UID: uid, Environment: v.Texts("Environment"),
		Watchdog: v.Duration("WatchdogUSec"), WatchdogAge: v.Age("WatchdogTimestampMonotonic"),
		Listen: streams(v), LeftInactive: v.Duration("InactiveExitTimestampMonotonic"),
		LeftActive:     v.Duration("ActiveExitTimestampMonotonic"),
		BecameInactive: v.Duration("InactiveEnterTimestampMonotonic"),
	}
}

// streams are the addresses of a socket that accept connections.
func streams(v properties.Values) []string {
	list, _ := properties.Value[[][]any](v, "Listen")
	var streams []string
	for _, l := range list {
		if len(l) == 2 && l[0] == "Stream" {
			address, _ := l[1].(string)
			streams = append(streams, address)
		}
	}
	return streams
}
