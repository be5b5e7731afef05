package unitstest

import (
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/require"
)

// Forger is another client of the bus, which sends false signals about units.
type Forger struct {
	t    testing.TB
	conn *dbus.Conn
}

// Forger connects a forger. Its connection closes at the end of the test.
func (b *Bus) Forger() *Forger {
	b.t.Helper()
	f := &Forger{t: b.t, conn: b.dial()}
	b.t.Cleanup(func() { _ = f.conn.Close() })
	return f
}

// Name returns the forger's unique name.
func (f *Forger) Name() string { return f.conn.Names()[0] }

// File returns a file descriptor, as a signal can carry it.
func (f *Forger) File() any { return dbus.UnixFD(0) }

// JobPath returns the object path of the job of that number.
func JobPath(number string) any {
	return dbus.ObjectPath("/org/freedesktop/systemd1/job/" + number)
}

// Broadcast sends PropertiesChanged for the unit to every connection whose match
// rules admit it. When it returns the bus has delivered the signal.
func (f *Forger) Broadcast(unit string, p Properties) {
	f.t.Helper()
	for _, s := range changes(unit, p) {
		require.NoError(f.t, f.conn.Emit(s.path, s.name, s.body...))
	}
	f.fence()
}

// Unicast sends PropertiesChanged for the unit to the unique name of every other
// connection, which bypasses match rules. When it returns the bus has delivered it.
func (f *Forger) Unicast(unit string, p Properties) {
	f.t.Helper()
	for _, s := range changes(unit, p) {
		f.UnicastSignal(string(s.path), s.name, s.body...)
	}
}

// UnicastSignal sends any signal to the unique name of every other connection.
func (f *Forger) UnicastSignal(path, name string, body ...any) {
	f.t.Helper()
	for _, to := range others(f.t, f.conn) {
		f.conn.Send(signalTo(to, path, name, body), nil)
	}
	f.fence()
}

// fence waits until the bus has processed all earlier messages.
func (f *Forger) fence() {
	require.NoError(f.t, f.conn.BusObject().Call("org.freedesktop.DBus.GetId", 0).Err)
}

func signalTo(to, path, name string, body []any) *dbus.Message {
	dot := strings.LastIndex(name, ".")
	m := &dbus.Message{Type: dbus.TypeSignal, Body: body, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldDestination: dbus.MakeVariant(to),
		dbus.FieldPath:        dbus.MakeVariant(dbus.ObjectPath(path)),
		dbus.FieldInterface:   dbus.MakeVariant(name[:dot]),
		dbus.FieldMember:      dbus.MakeVariant(name[dot+1:]),
	}}
	if len(body) > 0 {
		m.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(body...))
	}
	return m
}

// others lists the unique names on the bus without conn's own.
func others(t testing.TB, conn *dbus.Conn) []string {
	t.Helper()
	var all, unique []string
	require.NoError(t, conn.BusObject().Call("org.freedesktop.DBus.ListNames", 0).Store(&all))
	for _, name := range all {
		if strings.HasPrefix(name, ":") && name != conn.Names()[0] {
			unique = append(unique, name)
		}
	}
	return unique
}
