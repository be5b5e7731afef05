package operators

import (
	"errors"
	"sync"

	"codex-proxy/daemon/reload"
	"codex-proxy/notify/handoff"
	"codex-proxy/workers"
	"codex-proxy/workers/control"
)

// DrainTable is how drains change while the service runs. It is the control.DrainTable.
type DrainTable struct {
	lock        *reload.ChangeLock
	pool        *workers.Pool
	predecessor *reload.Predecessor

	mu sync.Mutex // one change at a time: both processes apply them in the same order
}

// Drain implements control.DrainTable. The successor gets the drains in force when it takes
// over, and takes later changes itself. A worker that the settings do not name belongs to
// the predecessors that have turns on it.
func (t *DrainTable) Drain(change control.Drain) error {
	return t.lock.Change(func() error {
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
func (t *DrainTable) Before() map[string]int { return t.predecessor.Turns() }

// Follow puts a change of the successor into force.
func (t *DrainTable) Follow(change control.Drain) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = change.Apply(t.pool) // the successor may have other workers
	t.predecessor.Pass(handoff.Drains, change)
}
