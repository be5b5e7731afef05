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

// Systemd is the fake manager. Like the real one it does one thing at a time:
// method calls and what tests ask of it run under one lock, so that a reply and
// a signal leave in the order of what they tell.
type Systemd struct {
	t       testing.TB
	address string
	readers sync.WaitGroup

	mu          sync.Mutex // guards what follows
	link        *link      // nil when not on the bus
	units       map[string]*Unit
	subscribers map[string]bool
	calls       map[string]int
	refusal     string   // an error
	refused     []string // the methods that get it; none: all that change something
	own         string   // the unit of who asks
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

// Unit returns the unit of that name, which is installed from now on.
func (m *Systemd) Unit(name string) *Unit {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.lookup(name)
	if u.now["LoadState"] == "not-found" {
		u.now["LoadState"] = "loaded"
	}
	return u
}

// Own makes the unit of that name the one that whoever asks is a process of.
func (m *Systemd) Own(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.own = name
}

// Calls counts the calls of a method ("Get", "Subscribe", "StartUnit") so far.
func (m *Systemd) Calls(method string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls[method]
}

// Refuse makes what changes something fail with the D-Bus error of that name, or
// only these of its methods; "" allows them again.
func (m *Systemd) Refuse(name string, methods ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refusal, m.refused = name, methods
}

// Mute makes all signals get lost, until it is called with false.
func (m *Systemd) Mute(mute bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mute = mute
}

// Reload is a daemon-reload, between whose signals change runs: what it does
// to units is not announced.
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

// Reexec is a daemon-reexec: a new connection takes the name over from the old
// one, and subscriptions survive.
func (m *Systemd) Reexec() {
	m.t.Helper()
	m.mu.Lock()
	subscribers := m.subscribers
	m.mu.Unlock()
	m.join(subscribers)
}

// Leave takes systemd off the bus.
func (m *Systemd) Leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.link != nil {
		_ = m.link.socket.Close()
		m.link = nil
	}
}

// Join puts a systemd on the bus that knows of no subscription yet. It takes
// the name over from the one that is there.
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

// stop waits until nothing of the fake runs.
func (m *Systemd) stop() {
	m.Leave()
	m.readers.Wait()
}

// emit broadcasts a signal; systemd sends none while nobody is subscribed.
func (m *Systemd) emit(s signal) {
	if m.link == nil || m.mute || len(m.subscribers) == 0 {
		return
	}
	_ = m.link.conn.Emit(s.path, s.name, s.body...) // a dead bus loses it
}

// lookup loads the unit as systemd does when it is first asked for it.
func (m *Systemd) lookup(name string) *Unit {
	u := m.units[name]
	if u == nil {
		u = &Unit{systemd: m, name: name, now: fresh("not-found"), job: "done"}
		m.units[name] = u
	}
	return u
}
