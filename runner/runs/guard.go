package runs

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/control"
)

// guardSlack is the time that the main process of a unit has for the end of its command, beyond the timeout and the
// grace.
const guardSlack = 10 * time.Second

// guard has the time until which a command has to have ended.
type guard struct {
	changed chan struct{} // holds one element if deadline has changed

	mu       sync.Mutex // guards the rest; nothing else is locked under it
	deadline time.Time  // zero for none
	grace    time.Duration
	over     bool // the main process has reported the end
}

func newGuard(grace time.Duration) guard { return guard{changed: make(chan struct{}, 1), grace: grace} }

// watch calls stop if the main process does not end the command in time: the command has the same user, and can stop
// that process (SIGSTOP). systemd continues the process when it stops the unit, and finally kills it.
func (g *guard) watch(ctx context.Context, stop func(context.Context)) {
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.changed:
			timer.Reset(g.left())
		case <-timer.C:
			stop(ctx)
		}
	}
}

// left is the time until the command has to have ended.
func (g *guard) left() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.deadline.IsZero() {
		return math.MaxInt64
	}
	return time.Until(g.deadline)
}

// expect waits for the end of the command for so long at most, from now on.
func (g *guard) expect(within time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at := time.Now().Add(within); g.deadline.IsZero() || at.Before(g.deadline) {
		g.deadline = at
	}
	g.wake()
}

// allow is expect for the whole time of a command, unless that has ended already.
func (g *guard) allow(limits wire.Limits) {
	g.mu.Lock()
	over := g.over
	g.grace = time.Duration(limits.Grace)
	g.mu.Unlock()
	if !over {
		g.expect(time.Duration(limits.Timeout+limits.Grace) + guardSlack)
	}
}

// expectCancel waits for the end of a command that was cancelled: no longer, if the main process did not answer.
func (g *guard) expectCancel(answer error) {
	switch {
	case answer == nil || errors.Is(answer, context.Canceled): // the latter is the client's end
		g.mu.Lock()
		grace := g.grace
		g.mu.Unlock()
		g.expect(grace + guardSlack)
	case !control.Gone(answer):
		g.expect(0)
	}
}

// finish ends the wait: the command has ended.
func (g *guard) finish() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over, g.deadline = true, time.Time{}
	g.wake()
}

func (g *guard) wake() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
}
