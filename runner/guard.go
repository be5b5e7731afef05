package runner

import (
	"context"
	"errors"
	"math"
	"time"

	"codex-proxy/runner/api/wire"
)

// guardSlack is the time that the main process of a unit has for the end of its command, beyond the timeout and the
// grace.
const guardSlack = 10 * time.Second

// guard has systemd stop the unit of a command if the main process does not end it in time: the command has the same
// user, and can stop that process (SIGSTOP). systemd continues the process when it stops the unit, and finally kills
// it.
func (r *Runner) guard(ctx context.Context, c *run) {
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.guarded:
			timer.Reset(r.left(c))
		case <-timer.C:
			r.overrun(c)
			r.Logger.Warn("a command does not end, stopping its unit", "session", c.Session, "command", c.Number)
			if err := r.stop(ctx, c.unit()); err != nil && ctx.Err() == nil {
				r.Logger.Error("cannot stop the unit of a command", "session", c.Session, "error", err)
			}
		}
	}
}

// left is the time until the command has to have ended.
func (r *Runner) left(c *run) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.deadline.IsZero() {
		return math.MaxInt64
	}
	return time.Until(c.deadline)
}

// overrun records that the guard ends the command, because of its time unless a user has cancelled it.
func (r *Runner) overrun(c *run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.overdue = c.cancelled == ""
}

// expect has the guard wait for the end of a command for so long at most, from now on.
func (r *Runner) expect(c *run, within time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := time.Now().Add(within); c.deadline.IsZero() || at.Before(c.deadline) {
		c.deadline = at
	}
	c.rearm()
}

// allow is expect for the whole time of a command, unless that has ended already.
func (r *Runner) allow(c *run, limits wire.Limits) {
	r.mu.Lock()
	over := c.over
	c.grace = time.Duration(limits.Grace)
	r.mu.Unlock()
	if !over {
		r.expect(c, time.Duration(limits.Timeout+limits.Grace)+guardSlack)
	}
}

// relieve ends the wait: the command has ended.
func (r *Runner) relieve(c *run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.over, c.deadline = true, time.Time{}
	c.rearm()
}

// rearm wakes guard.
func (c *run) rearm() {
	select {
	case c.guarded <- struct{}{}:
	default:
	}
}

// expectCancel has the guard wait for the end of a command that was cancelled: no longer, if the main process did not
// answer.
func (r *Runner) expectCancel(c *run, answer error) {
	switch {
	case answer == nil || errors.Is(answer, context.Canceled): // the latter is the client's end
		r.mu.Lock()
		grace := c.grace
		r.mu.Unlock()
		r.expect(c, grace+guardSlack)
	case !gone(answer):
		r.expect(c, 0)
	}
}
