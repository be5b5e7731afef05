package runs

import (
	"context"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/control"
	"codex-proxy/runner/exec"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/store"
)

// run is a command from shortly before the start of its unit until the unit has ended.
type run struct {
	*Runs
	store.Live

	unit    string
	control control.Dir
	state   progress
	guard   guard

	ran   bool          // its start is recorded; belongs to follow and, after that, to supervise
	gone  chan struct{} // closed when systemd has no such unit any more
	lost  bool          // gone is closed; belongs to the caller of Reconcile
	ended chan struct{} // closed when its end is in the store
	begun time.Time     // when it left the queue; zero if Recover has found it
}

func newRun(r *Runs, c store.Live) *run {
	return &run{
		Runs: r, Live: c, unit: UnitOf(c), control: control.Dir(r.Files.Control(c.Session)),
		guard: newGuard(time.Duration(c.Command.Limits.Grace)), ran: c.State == wire.CommandRunning,
		gone: make(chan struct{}), ended: make(chan struct{}),
	}
}

// resume follows a command that Recover has found, to its end.
func (c *run) resume(ctx context.Context) {
	if c.Command.Limits.Timeout > 0 { // else its end is recorded
		c.guard.allow(c.Command.Limits)
	}
	c.supervise(ctx, func(context.Context) error { return nil })
}

// supervise starts a unit and follows it to its end. An error of start means that the command does not run. If ctx ends
// before, a unit that has started goes on.
func (c *run) supervise(ctx context.Context, start func(context.Context) error) {
	unfollow := background(ctx, c.follow)
	unguard := background(ctx, func(ctx context.Context) { c.guard.watch(ctx, c.stop) })
	refusal := start(ctx)
	if refusal == nil {
		c.await(ctx)
	}
	unfollow()
	unguard()
	if ctx.Err() != nil {
		return
	}
	c.end(ctx, c.ending(c.state.cancelledBy(), refusal))
	if ctx.Err() == nil {
		c.finish(ctx, c)
	}
}

// await returns when root has recorded the end of the unit, the unit is gone, or ctx is done. The next command of the
// session starts after it: systemd takes a start of a unit that is active for done.
func (c *run) await(ctx context.Context) {
	arrived, stop, err := c.Watcher.Arrivals(c.Files.Command(c.Session, c.Number))
	if err != nil {
		c.Logger.Warn("cannot watch a command, looking for its end every few seconds", "session", c.Session, "error",
			err)
		stop = func() {}
	}
	defer stop()
	poll := time.NewTicker(lookEvery)
	defer poll.Stop()
	for !c.Files.Has(c.Session, c.Number, paths.Ended) {
		select {
		case <-ctx.Done():
			return
		case <-c.gone:
			return // the file exists before systemd reports the unit as inactive
		case <-arrived:
		case <-poll.C:
		}
	}
}

// lookEvery bounds how long the record of an end stays unnoticed if the directory cannot be watched.
const lookEvery = 10 * time.Second

// stop has systemd stop the unit, as the main process does not end its command in time.
func (c *run) stop(ctx context.Context) {
	c.state.overrun()
	c.Logger.Warn("a command does not end, stopping its unit", "session", c.Session, "command", c.Number)
	if err := c.Systemd.InsistOnStop(ctx, c.unit); err != nil && ctx.Err() == nil {
		c.Logger.Error("cannot stop the unit of a command", "session", c.Session, "error", err)
	}
}

// ask has the main process cancel the command. If it does not answer, though it runs, the unit is stopped.
func (c *run) ask(ctx context.Context, by string) {
	err := c.control.Ask(ctx, exec.Request{Do: exec.Cancel, By: by})
	if err != nil {
		c.Logger.Debug("the session does not answer", "session", c.Session, "error", err)
	}
	c.guard.expectCancel(err)
}
