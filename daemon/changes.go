package daemon

import (
	"sync/atomic"

	"codex-proxy/internal/nudge"
	"codex-proxy/workers/control"
)

// changes reports that something has changed to all that wait for it. No method blocks.
type changes struct {
	report nudge.Nudge // the report may have changed
	// awaitingTurns has the end of each turn reported as a change. To look at all workers
	// after each turn would make turns dearer the more workers there are.
	awaitingTurns atomic.Bool
	loads         func()           // the neighbours must get the load
	control       *control.Changes // the state that operators see may have changed
	followers     []nudge.Nudge
}

func newChanges(loads func()) *changes {
	c := &changes{loads: loads, control: control.NewChanges()}
	c.report = c.follow()
	return c
}

// follow returns a nudge for every change of the report. It is for the time before the tasks start.
func (c *changes) follow() nudge.Nudge {
	n := nudge.New()
	c.followers = append(c.followers, n)
	return n
}

// reportChanged is for every change of the report.
func (c *changes) reportChanged() {
	c.control.Changed()
	for _, n := range c.followers {
		n.Touch()
	}
	c.loads()
}

// turnEnded is for every end of a turn.
func (c *changes) turnEnded() {
	c.control.Changed()
	c.loads()
	if c.awaitingTurns.Load() {
		c.reportChanged()
	}
}
