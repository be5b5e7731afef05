package daemon

import (
	"sync"

	"codex-proxy/workers/control"
)

// gate keeps changes of the keys and drains out of a hand-over, so that none is lost
// between the state that the successor gets and the moment from which it takes changes
// itself.
type gate struct {
	mu    sync.RWMutex // held for writing during a hand-over; it guards moved
	moved bool         // changes belong to the successor
}

// change calls do while no hand-over is under way. The error is control.ErrMoved once the
// successor takes the changes.
func (g *gate) change(do func() error) error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.moved {
		return control.ErrMoved
	}
	return do()
}

// handOver calls do, which reports whether the successor takes the changes from now on.
func (g *gate) handOver(do func() (moved bool, err error)) (moved bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.moved, err = do()
	return g.moved, err
}
