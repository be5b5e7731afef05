package unitstest

import (
	"sync"
	"testing"

	"github.com/godbus/dbus/v5"
)

const (
	managerName  = "org.freedesktop.systemd1"
	managerPath  = dbus.ObjectPath("/org/freedesktop/systemd1")
	managerIface = "org.freedesktop.systemd1.Manager"
)

// Systemd is the fake manager. Like the real one it does one operation at a time:
// method calls and the methods that tests call run under one lock, so replies and
// signals leave in the order of the changes that they report.
type Systemd struct {
	t       testing.TB
	address string
	readers sync.WaitGroup

	mu          sync.Mutex // guards what follows
	link        *link      // nil when not on the bus
	units       map[string]*Unit
	subscribers map[string]bool
	calls       map[string]int
	refusal     string   // the name of an error
	refused     []string // the methods that return refusal; none: all that change a unit
	own         string   // the unit of every caller
	lastJob     uint32
	queued      map[dbus.ObjectPath]string // the types of jobs that Queue made
	mute        bool
}

func newSystemd(t testing.TB, address string) *Systemd {
	return &Systemd{
		t: t, address: address, units: make(map[string]*Unit),
		subscribers: make(map[string]bool), calls: make(map[string]int), queued: make(map[dbus.ObjectPath]string),
	}
}

// Unit returns the unit of that name and installs it if necessary.
func (m *Systemd) Unit(name string) *Unit {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.lookup(name)
	if u.now["LoadState"] == "not-found" {
		u.now["LoadState"] = "loaded"
	}
	return u
}

// Own sets the unit that GetUnitByPID returns, the own unit of every caller.
func (m *Systemd) Own(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.own = name
}

// Calls returns the number of calls of a method ("Get", "Subscribe", "StartUnit").
func (m *Systemd) Calls(method string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls[method]
}

// Refuse makes these methods fail with the D-Bus error of that name, or without
// methods all that change a unit; "" allows them again.
func (m *Systemd) Refuse(name string, methods ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refusal, m.refused = name, methods
}

// Mute drops all signals until a call with false.
func (m *Systemd) Mute(mute bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mute = mute
}

// Reload is a daemon-reload. change runs between its signals, and no signal
// announces its effects on units.
func (m *Systemd) Reload(change func()) {
	m.mu.Lock()
	m.emit(signal{managerPath, managerIface + ".Reloading", []any{true}})
	for name := range m.units {
		m.emit(signal{managerPath, managerIface + ".UnitRemoved", []any{name, unitPath(name)}})
	}
	m.mu.Unlock()
	m.Mute(true)
	change()
	m.Mute(false)
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.units {
		m.emit(signal{managerPath, managerIface + ".UnitNew", []any{name, unitPath(name)}})
	}
	m.emit(signal{managerPath, managerIface + ".Reloading", []any{false}})
}

// Reexec is a daemon-reexec: a new connection takes over the name, and subscriptions
// survive.
func (m *Systemd) Reexec() {
	m.t.Helper()
	m.mu.Lock()
	subscribers := m.subscribers
	m.mu.Unlock()
	m.join(subscribers)
}

// Leave closes systemd's connection to the bus.
func (m *Systemd) Leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.link != nil {
		_ = m.link.socket.Close()
		m.link = nil
	}
}

// Join connects a systemd without subscriptions to the bus. It takes over the name
// from a systemd that is there.
func (m *Systemd) Join() {
	m.t.Helper()
	m.join(make(map[string]bool))
}

// join returns when the name is ours.
func (m *Systemd) join(subscribers map[string]bool) {
	m.t.Helper()
	l := newLink(m.t, m.address)
	m.mu.Lock()
	old := m.link
	m.link, m.subscribers = l, subscribers
	m.mu.Unlock()
	m.readers.Add(1)
	go func() {
		defer m.readers.Done()
		l.serve(func(msg *dbus.Message) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.handle(l.conn, msg)
		})
	}()
	l.own()
	if old != nil {
		_ = old.socket.Close()
	}
}

// stop disconnects the fake and waits for its goroutines.
func (m *Systemd) stop() {
	m.Leave()
	m.readers.Wait()
}

// emit broadcasts a signal; systemd sends none without a subscription.
func (m *Systemd) emit(s signal) {
	if m.link == nil || m.mute || len(m.subscribers) == 0 {
		return
	}
	_ = m.link.conn.Emit(s.path, s.name, s.body...) // a dead bus loses it
}

// lookup loads the unit at its first use, as systemd does.
func (m *Systemd) lookup(name string) *Unit {
	u := m.units[name]
	if u == nil {
		u = &Unit{systemd: m, name: name, now: fresh("not-found"), job: "done"}
		m.units[name] = u
	}
	return u
}
