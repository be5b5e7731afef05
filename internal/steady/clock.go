// Package steady has the clock by which kept things are deleted for their age: a wrong clock that is mended within an
// hour deletes nothing.
package steady

import (
	"sync"
	"time"
)

const (
	// hold is the time after which a step forward counts: time synchronization mends a wrong clock sooner.
	hold = time.Hour
	// slack is the least step: less is an adjustment, or rounding.
	slack = time.Minute
)

// Clock is the time of day, with each step forward an hour late, whereas a step back counts at once. The kernel's
// monotonic clock stands still while a machine sleeps, so a sleep is a step, too. The zero Clock is ready, trusts the
// time of its first reading, and is safe for concurrent use.
type Clock struct {
	mu     sync.Mutex
	read   time.Time     // the last reading
	behind time.Duration // the steps forward that do not count yet
	held   time.Duration // for so long
}

// Now is the time against which the age of a kept thing is measured.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	wall := now.Round(0) // without the monotonic reading
	if !c.read.IsZero() {
		passed := now.Sub(c.read)
		c.pass(passed, wall.Sub(c.read.Round(0))-passed)
	}
	c.read = now
	return wall.Add(-c.behind)
}

// pass follows the clock over a time, in which it was stepped.
func (c *Clock) pass(passed, step time.Duration) {
	if step.Abs() < slack {
		c.held += passed
	} else {
		c.behind, c.held = max(0, c.behind+step), 0
	}
	if c.held >= hold {
		c.behind = 0
	}
}
