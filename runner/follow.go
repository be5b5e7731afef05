package runner

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/exec"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
	"codex-proxy/runner/store"
)

// follow records the reports of the main process of a command: its phases, and its end as soon as the result is whole.
// It returns when the main process reports no more, or at the end of ctx. If the main process dies before, the files of
// the command decide on its end.
func (r *Runner) follow(ctx context.Context, c *run) {
	conn, err := r.connect(ctx, c)
	if err != nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if by := r.reach(c); by != "" {
		r.ask(ctx, c, by)
	}
	err = json.NewEncoder(conn).Encode(exec.Request{Version: session.Version, Do: exec.Follow})
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, exec.MaxReply)
	leave := func() {}
	defer func() { leave() }()
	for err == nil && lines.Scan() {
		leave()
		var reply exec.Reply
		if err = json.Unmarshal(lines.Bytes(), &reply); err == nil && reply.Error != "" {
			err = errors.New(reply.Error)
		}
		if err == nil {
			leave = r.enter(ctx, c, reply)
		}
	}
	if err = errors.Join(err, lines.Err()); err != nil && ctx.Err() == nil {
		r.Logger.Debug("a session is not followed any more", "session", c.Session, "error", err)
	}
}

// connect waits for the control socket, and connects to it. Root makes the socket before the main process starts.
func (r *Runner) connect(ctx context.Context, c *run) (net.Conn, error) {
	dir := filepath.Join(r.RuntimeDir, paths.ControlDir(c.Session))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	arrived, stop, err := r.Watcher.Arrivals(dir)
	if err != nil {
		stop = func() {} // await has the same error, and reports it
	}
	defer stop()
	poll := time.NewTicker(reconcileEvery)
	defer poll.Stop()
	for {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unix", filepath.Join(dir, paths.ControlSocket))
		if err == nil {
			return conn, nil
		}
		select {
		case <-arrived:
		case <-poll.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// reach records that the main process takes requests, and returns the user that has cancelled the command before.
func (r *Runner) reach(c *run) (cancelledBy string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.reached = true
	return c.cancelled
}

// enter begins the work of a phase, and returns a function for its end.
func (r *Runner) enter(ctx context.Context, c *run, reply exec.Reply) (leave func()) {
	switch {
	case reply.Phase == exec.Awaiting && reply.Need != nil:
		return background(ctx, func(ctx context.Context) { r.provide(ctx, c, reply.Need) })
	case reply.Phase == exec.Running:
		r.runs(ctx, c)
	case reply.Phase == exec.Finishing:
		r.relieve(c)
	case reply.Phase == exec.Held:
		r.relieve(c)
		r.hold(ctx, c)
	case reply.Phase == exec.Ended:
		r.relieve(c)
		r.conclude(ctx, c)
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

// runs records the start of a command.
func (r *Runner) runs(ctx context.Context, c *run) {
	err := r.Store.Move(ctx, c.Session, c.Number, wire.CommandStarting, wire.CommandRunning)
	switch {
	case err == nil:
		c.ran = true
		r.recordStarted(c)
	case !errors.Is(err, store.ErrState) && ctx.Err() == nil:
		r.Logger.Warn("cannot record the start of a command", "session", c.Session, "error", err)
	}
	r.report()
}

// hold records that a command has failed, and that its unit stays.
func (r *Runner) hold(ctx context.Context, c *run) {
	err := r.Store.Hold(ctx, c.Session, c.Number, r.ending(c, "", nil))
	if err != nil && !errors.Is(err, store.ErrState) && ctx.Err() == nil {
		r.Logger.Warn("cannot record the hold of a command", "session", c.Session, "error", err)
	}
	r.report()
}

// conclude records the end of a command by its result, while its unit still ends. Without a result the files decide
// later.
func (r *Runner) conclude(ctx context.Context, c *run) {
	result, err := read(r.file(c.Session, c.Number, paths.Result), session.ReadResult)
	if err == nil && result != nil {
		if result.HookFault != "" {
			r.Logger.Warn("the hook after a command failed", "session", c.Session, "command", c.Number, "error",
				result.HookFault)
		}
		r.end(ctx, c, r.ending(c, r.canceller(c), nil))
	}
}
