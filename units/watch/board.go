package watch

import (
	"maps"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"

	"codex-proxy/internal/nudge"
	"codex-proxy/units"
	"codex-proxy/units/bus"
	"codex-proxy/units/properties"
)

// board holds all facts about the watched units: the connection's reader writes
// the signals, the session writes the properties it read, and the watcher's loop
// takes the states to publish. It outlives connections. Its memory is bounded by
// the number of units, however fast they change.
type board struct {
	ready  nudge.Nudge // states wait to be published
	reread nudge.Nudge // a unit has properties to be read again
	loose  nudge.Nudge // a unit has changes that wait for the signal that completes them
	resync nudge.Nudge // systemd has reloaded: everything must be read again

	metrics *metrics

	fixed map[dbus.ObjectPath]bool // units that are watched for ever

	mu      sync.Mutex // guards the records; the session alone adds and removes some
	records map[dbus.ObjectPath]*record
}

func newBoard(units []string, m *metrics) *board {
	b := &board{
		ready:   nudge.New(),
		reread:  nudge.New(),
		loose:   nudge.New(),
		resync:  nudge.New(),
		metrics: m,
		fixed:   make(map[dbus.ObjectPath]bool),
		records: make(map[dbus.ObjectPath]*record),
	}
	for _, unit := range units {
		path := bus.UnitPath(unit)
		b.records[path], b.fixed[path] = newRecord(unit), true
	}
	return b
}

// follow has the board hold these units in addition to the fixed ones, and no others. It returns the new ones.
func (b *board) follow(units []string) (added []dbus.ObjectPath) {
	b.mu.Lock()
	defer b.mu.Unlock()
	gone := maps.Clone(b.records)
	for _, unit := range units {
		path := bus.UnitPath(unit)
		delete(gone, path)
		if b.records[path] == nil {
			b.records[path] = newRecord(unit)
			added = append(added, path)
		}
	}
	for path := range gone {
		if !b.fixed[path] {
			delete(b.records, path)
		}
	}
	return added
}

// others are the units that are not fixed.
func (b *board) others() (paths []dbus.ObjectPath) {
	for path := range b.records {
		if !b.fixed[path] {
			paths = append(paths, path)
		}
	}
	return paths
}

// update is the only writer of records. It wakes the goroutines that the change concerns.
func (b *board) update(path dbus.ObjectPath, change func(*record)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.records[path]
	if r == nil {
		return
	}
	change(r)
	if len(r.states) > 0 {
		b.ready.Touch()
	}
	if len(r.stale) > 0 {
		b.reread.Touch()
	}
	if !r.loose.IsZero() {
		b.loose.Touch()
	}
}

// reset drops the facts of an old connection, as their sequence numbers ended with it. It keeps the published states,
// so that none is published twice.
func (b *board) reset() {
	for path := range b.records {
		b.update(path, (*record).reset)
	}
}

// signal processes one signal of systemd, on the connection's reader.
func (b *board) signal(s *dbus.Signal) {
	switch s.Name {
	case "org.freedesktop.DBus.Properties.PropertiesChanged":
		b.update(s.Path, func(r *record) { b.changed(r, s) })
	case bus.ManagerIface + ".Reloading":
		var starts bool
		if err := dbus.Store(s.Body, &starts); err != nil || !starts {
			b.resync.Touch()
		}
	}
}

// changed applies the signal, and measures its delay if it carries a change of state.
func (b *board) changed(r *record, s *dbus.Signal) {
	before := r.values.Time("StateChangeTimestamp")
	r.changed(s)
	if at := r.values.Time("StateChangeTimestamp"); r.synced && at.After(before) {
		b.metrics.lag.Observe(max(0, time.Since(at).Seconds()))
	}
}

// learn applies the replies to a read of the unit's properties.
func (b *board) learn(path dbus.ObjectPath, answers []properties.Answer) {
	b.update(path, func(r *record) { r.learn(answers) })
}

// settle publishes the changes that no signal has completed for settleTime.
func (b *board) settle() {
	for path := range b.records {
		b.update(path, (*record).settle)
	}
}

// wanted returns the properties to be read again, by unit, and clears the list.
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

// nextStart is the first automatic restart that is due later than after; zero
// without any.
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

// take removes and returns the states to publish, each unit's in order.
func (b *board) take() []units.State {
	b.mu.Lock()
	defer b.mu.Unlock()
	var states []units.State
	for _, r := range b.records {
		states = append(states, r.states...)
		r.states = nil
	}
	return states
}
