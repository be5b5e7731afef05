package daemon

import "sync/atomic"

// changes reports that something has changed to all that wait for it. No method blocks.
type changes struct {
	report chan struct{} // holds a token when the report may have changed
	// awaitingTurns has the end of each turn reported as a change. To look at all workers
	// after each turn would make turns dearer the more workers there are.
	awaitingTurns atomic.Bool
	loads         func()   // the neighbours must get the load
	control       func()   // the state that operators see may have changed
	others        []func() // the report may have changed
}

func newChanges(loads func()) *changes {
	return &changes{report: make(chan struct{}, 1), loads: loads, control: func() {}}
}

// reportChanged is for every change of the report.
func (c *changes) reportChanged() {
	c.control()
	for _, changed := range c.others {
		changed()
	}
	select {
	case c.report <- struct{}{}:
	default: // the token that is there covers this change, too
	}
	c.loads()
}

// turnEnded is for every end of a turn.
func (c *changes) turnEnded() {
	c.control()
	c.loads()
	if c.awaitingTurns.Load() {
		c.reportChanged()
	}
}
