package main

import (
	"codex-proxy/proxy/control"
)

// drainTable is how drains change while the service runs. It is the
// control.DrainTable.
type drainTable struct{ daemon *daemon }

// Drain implements control.DrainTable. The successor gets what is in force when it
// takes over; a change that comes later is its own.
func (t drainTable) Drain(change control.Drain) error {
	d := t.daemon
	d.keyTable.mu.Lock()
	defer d.keyTable.mu.Unlock()
	if d.keyTable.moved {
		return control.ErrMoved
	}
	return change.Apply(d.pool)
}
