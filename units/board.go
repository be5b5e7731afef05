package units

import (
	"sync"
	"time"

	"github.com/godbus/dbus/v5"
)

// board is where everything known of the watched units meets: the connection's
// reader writes signals, the session writes what it read, and the watcher's
// loop takes the states to publish. It outlives connections. Its memory is
// bounded by the number of units, however fast they change.
type board struct {
	news   chan struct{} // there are states to take
	reread chan struct{} // a unit has properties to be read again
	loose  chan struct{} // a unit has changes that wait for what follows them
	resync chan struct{} // systemd has reloaded: everything must be read again

	metrics *metrics

	mu      sync.Mutex // guards the records
	records map[dbus.ObjectPath]*record
}

func newBoard(units []string, m *metrics) *board {
	b := &board{
		news:    make(chan struct{}, 1),
		reread:  make(chan struct{}, 1),
		loose:   make(chan struct{}, 1),
		resync:  make(chan struct{}, 1),
		metrics: m,
		records: make(map[dbus.ObjectPath]*record),
	}
	for _, unit := range units {
		path := dbus.ObjectPath(unitPath(unit))
		b.records[path] = newRecord(unit)
	}
	return b
}

// update is the one door to a record. It wakes whom the change concerns.
func (b *board) update(path dbus.ObjectPath, change func(*record)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.records[path]
	if r == nil {
		return
	}
	change(r)
	if len(r.states) > 0 {
		kick(b.news)
	}
	if len(r.stale) > 0 {
		kick(b.reread)
	}
	if !r.loose.IsZero() {
		kick(b.loose)
	}
}

// reset forgets the facts of an old connection, whose sequence ended with it.
// What was published stays, so that the same state isn't published again.
func (b *board) reset() {
	for path := range b.records {
		b.update(path, (*record).reset)
	}
}

// signal takes one signal from systemd, on the connection's reader.
func (b *board) signal(s *dbus.Signal) {
	switch s.Name {
	case "org.freedesktop.DBus.Properties.PropertiesChanged":
		b.update(s.Path, func(r *record) { b.heard(r, s) })
	case managerIface + ".Reloading":
		var starts bool
		if err := dbus.Store(s.Body, &starts); err != nil || !starts {
			kick(b.resync)
		}
	}
}

// heard measures how late the signal is, if it carries a change of state.
func (b *board) heard(r *record, s *dbus.Signal) {
	before := r.facts.time("StateChangeTimestamp")
	r.changed(s)
	if at := r.facts.time("StateChangeTimestamp"); r.synced && at.After(before) {
		b.metrics.lag.Observe(max(0, time.Since(at).Seconds()))
	}
}

// learn takes the replies to a read of the unit's properties.
func (b *board) learn(path dbus.ObjectPath, answers []answer) {
	b.update(path, func(r *record) { r.learn(answers) })
}

// settle publishes the changes that nothing followed for a while.
func (b *board) settle() {
	for path := range b.records {
		b.update(path, (*record).settle)
	}
}

// wanted returns the properties to be read again, by unit, and forgets that.
func (b *board) wanted() map[dbus.ObjectPath][]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	wanted := make(map[dbus.ObjectPath][]string)
	for path, r := range b.records {
		for name := range r.stale {
			wanted[path] = append(wanted[path], name)
		}
		clear(r.stale)
	}
	return wanted
}

// nextStart is the first automatic restart that is announced for a time after
// that one; zero without any.
func (b *board) nextStart(after time.Time) (next time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.records {
		if at := r.last.NextRestartAt; at.After(after) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// take returns the states to publish, each unit's in order, and forgets them.
func (b *board) take() []State {
	b.mu.Lock()
	defer b.mu.Unlock()
	var states []State
	for _, r := range b.records {
		states = append(states, r.states...)
		r.states = nil
	}
	return states
}
