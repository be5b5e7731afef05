package runs

import (
	"context"
	"errors"
	"sync"
	"time"

	"codex-proxy/runner/control"
	"codex-proxy/runner/exec"
	"codex-proxy/runner/store"
)

// follow records the reports of the main process: its phases, and its end as soon as the result is whole. It returns
// when the main process reports no more, or at the end of ctx. If the main process dies before, the files of the
// command decide on its end.
func (c *run) follow(ctx context.Context) {
	conn, err := c.control.Connect(ctx, c.Watcher)
	if err != nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if by := c.state.reach(); by != "" {
		c.ask(ctx, by)
	}
	leave := func() {}
	defer func() { leave() }()
	err = control.Follow(conn, func(reply exec.Reply) {
		leave()
		leave = c.enter(ctx, reply)
	})
	if err != nil && ctx.Err() == nil {
		c.Logger.Debug("a session is not followed any more", "session", c.Session, "error", err)
	}
}

// enter begins the work of a phase, and returns a function for its end.
func (c *run) enter(ctx context.Context, reply exec.Reply) (leave func()) {
	switch {
	case reply.Phase == exec.Awaiting && reply.Need != nil:
		return background(ctx, func(ctx context.Context) { c.provide(ctx, reply.Need) })
	case reply.Phase == exec.Running:
		c.recordRunning(ctx, reply.Started)
	case reply.Phase == exec.Finishing:
		c.guard.finish()
	case reply.Phase == exec.Held:
		c.guard.finish()
		c.hold(ctx)
	case reply.Phase == exec.Ended:
		c.guard.finish()
		c.conclude(ctx)
	}
	return func() {}
}

// background runs do in a goroutine; end cancels it and waits for it.
func background(ctx context.Context, do func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { do(ctx) })
	return func() {
		cancel()
		done.Wait()
	}
}

// provide obtains the environment that a command waits for, and answers the command. It returns when that is done, or
// at the end of ctx; a build goes on then.
func (c *run) provide(ctx context.Context, need *exec.Need) {
	err := c.Environments.Obtain(ctx, c.Live, need)
	if ctx.Err() != nil {
		return
	}
	answer := exec.Request{Do: exec.Provide, Key: need.Key}
	if err != nil {
		answer.Fault = err.Error()
	}
	if err := c.control.Ask(ctx, answer); err != nil && ctx.Err() == nil {
		c.Logger.Debug("the session does not answer", "session", c.Session, "error", err)
	}
}

// recordRunning records that a command runs, since the time started.
func (c *run) recordRunning(ctx context.Context, started time.Time) {
	err := c.Commands.Begin(ctx, c.Session, c.Number, started)
	switch {
	case err == nil:
		c.ran = true
		c.recordStarted(c)
	case !errors.Is(err, store.ErrState) && ctx.Err() == nil:
		c.Logger.Warn("cannot record the start of a command", "session", c.Session, "error", err)
	}
	c.Queue.Announce()
}

// hold records that a command has failed, and that its unit stays.
func (c *run) hold(ctx context.Context) {
	err := c.Commands.Hold(ctx, c.Session, c.Number, c.ending("", nil))
	if err != nil && !errors.Is(err, store.ErrState) && ctx.Err() == nil {
		c.Logger.Warn("cannot record the hold of a command", "session", c.Session, "error", err)
	}
	c.Queue.Announce()
}

// conclude records the end of a command by its result, while its unit still ends. Without a result the files decide
// later.
func (c *run) conclude(ctx context.Context) {
	result, err := c.Files.Result(c.Session, c.Number)
	if err != nil || result == nil {
		return
	}
	if result.HookFault != "" {
		c.Logger.Warn("the hook after a command failed", "session", c.Session, "command", c.Number, "error",
			result.HookFault)
	}
	c.end(ctx, c.ending(c.state.cancelledBy(), nil))
}
