package reload

import (
	"sync"

	"codex-proxy/workers/control"
)

// ChangeLock keeps changes of the keys and drains out of a hand-off, so that none is lost
// between the state that the successor gets and the moment from which it takes changes
// itself.
type ChangeLock struct {
	mu    sync.RWMutex // held for writing during a hand-off; it guards moved
	moved bool         // changes belong to the successor
}

// Change calls do while no hand-off is under way. The error is control.ErrMoved once the
// successor takes the changes.
func (l *ChangeLock) Change(do func() error) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.moved {
		return control.ErrMoved
	}
	return do()
}

// HandOff calls do, which reports whether the successor takes the changes from now on.
func (l *ChangeLock) HandOff(do func() (moved bool, err error)) (moved bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.moved, err = do()
	return l.moved, err
}
