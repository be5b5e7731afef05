package bus

import (
	"sync"

	"github.com/godbus/dbus/v5"

	"codex-proxy/internal/nudge"
)

// senderFilter is the signal handler of one connection. It passes on only the
// signals of the owner of org.freedesktop.systemd1. A sender= in a match rule isn't
// enough: a signal addressed to our own unique name bypasses every rule. No process
// can forge the sender: the bus writes it.
type senderFilter struct {
	deliver func(*dbus.Signal)
	changed nudge.Nudge // the owner changed, one pending at most

	mu     sync.Mutex // guards the fields below, and is held while delivering
	owner  string     // the unique name, empty while no connection owns the name
	newer  bool       // owner is from a signal, which is newer than GetNameOwner
	closed bool
}

func newSenderFilter(deliver func(*dbus.Signal)) *senderFilter {
	return &senderFilter{deliver: deliver, changed: nudge.New()}
}

// DeliverSignal is called by the connection's reader, in the order of the wire.
func (f *senderFilter) DeliverSignal(_, _ string, s *dbus.Signal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
	case s.Sender == "org.freedesktop.DBus":
		f.ownerChanged(s)
	case f.owner != "" && s.Sender == f.owner:
		f.deliver(s)
	}
}

// ownerChanged follows a daemon-reexec, which changes systemd's unique name.
func (f *senderFilter) ownerChanged(s *dbus.Signal) {
	var name, before, after string
	if s.Name != "org.freedesktop.DBus.NameOwnerChanged" ||
		dbus.Store(s.Body, &name, &before, &after) != nil || name != ManagerName {
		return
	}
	f.owner, f.newer = after, true
	f.changed.Touch()
}

// startWith sets the owner that GetNameOwner returned, unless a signal has named a
// newer one meanwhile.
func (f *senderFilter) startWith(owner string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.newer {
		f.owner = owner
	}
}

func (f *senderFilter) current() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.owner
}

// Close ends the delivery of signals.
func (f *senderFilter) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
}
