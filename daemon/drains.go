package daemon

import (
	"errors"
	"sync"

	"codex-proxy/daemon/succession"
	"codex-proxy/notify/handoff"
	"codex-proxy/workers"
	"codex-proxy/workers/control"
)

// drainTable is how drains change while the service runs. It is the control.DrainTable.
type drainTable struct {
	gate        *gate
	pool        *workers.Pool
	predecessor *succession.Predecessor

	mu sync.Mutex // one change at a time: both processes apply them in the same order
}

// Drain implements control.DrainTable. The successor gets the drains in force when it takes
// over, and takes later changes itself. A worker that the settings do not name belongs to
// the predecessors that have turns on it.
func (t *drainTable) Drain(change control.Drain) error {
	return t.gate.change(func() error {
		t.mu.Lock()
		defer t.mu.Unlock()
		err := change.Apply(t.pool)
		if err != nil && !errors.Is(err, workers.ErrUnknown) {
			return err
		}
		t.predecessor.Pass(handoff.Drains, change)
		if t.predecessor.Has(change.Workers) {
			return nil
		}
		return err
	})
}

// Before implements control.DrainTable.
func (t *drainTable) Before() map[string]int { return t.predecessor.Turns() }

// follow puts a change of the successor into force.
func (t *drainTable) follow(change control.Drain) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = change.Apply(t.pool) // the successor may have other workers
	t.predecessor.Pass(handoff.Drains, change)
}
