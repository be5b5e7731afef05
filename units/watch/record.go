package watch

import (
	"time"

	"github.com/godbus/dbus/v5"

	"codex-proxy/units"
	"codex-proxy/units/properties"
)

// maxStates bounds the states of one unit that wait to be published. A restart
// makes about eight; a slower reader misses the oldest, never the newest.
const maxStates = 32

// record is one unit on the board, guarded by the board's lock.
type record struct {
	unit  string
	known properties.Set // of a unit of this type

	values properties.Values
	synced bool                // all properties were read on this connection
	loose  time.Time           // time of the first unpublished change, or zero
	stale  map[string]struct{} // properties to be read again

	states []units.State // to be published
	last   units.State   // the newest state, published or not
}

func newRecord(unit string) *record {
	r := &record{unit: unit, known: properties.Of(unit)}
	r.reset()
	return r
}

func (r *record) reset() {
	r.values, r.synced, r.loose = make(properties.Values), false, time.Time{}
	r.stale = make(map[string]struct{})
}

// changed applies a PropertiesChanged signal (D-Bus specification, "Standard
// Interfaces"). systemd sends one for the unit's type and then one for Unit, in
// this order so that clients can take the two as one change. After a body that
// cannot be parsed all properties are read again.
func (r *record) changed(s *dbus.Signal) {
	iface, values, invalidated, ok := parseChanged(s.Body)
	if !ok {
		for name := range r.known {
			r.reread(name)
		}
		return
	}
	waiting := r.values.WaitingSince()
	for name, value := range values {
		if p := r.known[name]; p.Iface == iface && p.Holds(value) {
			r.values.Learn(name, value.Value(), s.Sequence)
		}
	}
	if now := r.values.WaitingSince(); !now.IsZero() && !now.Equal(waiting) {
		r.newDelay(s.Sequence)
	}
	for _, name := range invalidated {
		if r.known[name].Iface == iface {
			r.reread(name)
		}
	}
	if r.values.Text("LoadState") != "loaded" && r.values.Text("ActiveState") != "inactive" {
		r.reread("LoadState") // the unit was installed meanwhile; no signal carries that
	}
	if iface == properties.UnitIface && !r.values.MayRestart() {
		r.publish()
	} else if r.loose.IsZero() {
		r.loose = time.Now()
	}
}

// parseChanged doesn't use dbus.Store, which turns a struct within a variant
// (the property Job) into an array.
func parseChanged(body []any) (iface string, values map[string]dbus.Variant, invalidated []string, ok bool) {
	if len(body) != 3 {
		return "", nil, nil, false
	}
	iface, ok1 := body[0].(string)
	values, ok2 := body[1].(map[string]dbus.Variant)
	invalidated, ok3 := body[2].([]string)
	return iface, values, invalidated, ok1 && ok2 && ok3
}

// newDelay drops the delay before the restart: it has changed, and no signal
// carries it.
func (r *record) newDelay(seq dbus.Sequence) {
	if _, ok := r.known["RestartUSecNext"]; !ok || r.values.Missing("RestartUSecNext") {
		return
	}
	r.values.Learn("RestartUSecNext", nil, seq)
	r.reread("RestartUSecNext")
}

func (r *record) learn(answers []properties.Answer) {
	r.values.LearnAll(answers)
	r.synced = r.synced || len(r.values) == len(r.known)
	r.publish()
}

func (r *record) reread(name string) { r.stale[name] = struct{}{} }

// settle publishes changes that were loose for settleTime. An end that may not be final is read again first: systemd
// sets both states in one step, so its answer has the second state, however late its signal is.
func (r *record) settle() {
	switch {
	case r.loose.IsZero() || time.Since(r.loose) < settleTime:
	case r.values.MayRestart():
		r.loose = time.Time{}
		for name := range r.known {
			r.reread(name)
		}
	default:
		r.publish()
	}
}

func (r *record) publish() {
	r.loose = time.Time{}
	if !r.synced {
		return
	}
	s := units.StateOf(r.unit, r.values)
	if s == r.last {
		return
	}
	if len(r.states) == maxStates {
		r.states = append(r.states[:0], r.states[1:]...)
	}
	r.states, r.last = append(r.states, s), s
}
