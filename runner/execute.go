package runner

import (
	"context"
	"errors"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/outcome"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
	"codex-proxy/runner/store"
	"codex-proxy/runner/workspace"
)

// execute runs a command from its lease to the end of its unit. If ctx ends before, a unit that has started goes on.
func (r *Runner) execute(ctx context.Context, c *run) {
	r.attend(ctx, c, func() error { return r.launch(ctx, c) })
}

// attend starts a unit and follows it to its end. An error of start means that the command does not run.
func (r *Runner) attend(ctx context.Context, c *run, start func() error) {
	leave := background(ctx, func(ctx context.Context) { r.follow(ctx, c) })
	unguard := background(ctx, func(ctx context.Context) { r.guard(ctx, c) })
	refusal := start()
	if refusal == nil {
		r.await(ctx, c)
	}
	leave()
	unguard()
	if ctx.Err() != nil {
		return
	}
	r.end(ctx, c, r.ending(c, r.canceller(c), refusal))
	if ctx.Err() == nil {
		r.leave(ctx, c)
	}
}

// launch starts the unit of a command. An error means that it does not run.
func (r *Runner) launch(ctx context.Context, c *run) error {
	full, err := r.Store.Command(ctx, c.Session, c.Number)
	if err == nil {
		err = r.Store.Move(ctx, c.Session, c.Number, wire.CommandQueued, wire.CommandStarting)
	}
	if err != nil {
		return err
	}
	r.report()
	slot, err := r.lease(ctx, full)
	if err != nil {
		return err
	}
	if err := r.checkSecrets(full); err != nil {
		return err
	}
	spec := specOf(full.Command, slot)
	spec.Hold, spec.Hooks = full.Hold, r.Hooks
	if spec.Artifacts != nil {
		spec.Artifacts.Bytes, spec.Artifacts.Count = r.Artifacts.Bytes, r.Artifacts.Count
	}
	r.furnish(full, spec)
	if spec.Environment, err = r.environment(ctx, full); err != nil {
		return err
	}
	if err := r.writeCommand(c.Session, c.Number, spec); err != nil {
		return err
	}
	if err := r.startUnit(ctx, c, full.Command.Limits); err != nil {
		return err
	}
	r.allow(c, full.Command.Limits)
	r.mu.Lock()
	defer r.mu.Unlock()
	c.started = true
	return nil
}

// startUnit starts the unit of a command. While systemd does not answer, the unit and the files have the state: root
// makes the log before anything of the command runs, and starts no command that has a log. So a second request runs no
// command twice.
func (r *Runner) startUnit(ctx context.Context, c *run, limits wire.Limits) error {
	begun := func() bool {
		return r.has(c.Session, c.Number, paths.Output) || r.has(c.Session, c.Number, paths.Ended)
	}
	err := r.insist(ctx, begun, func() error {
		if r.canceller(c) != "" && !begun() {
			return r.withdraw(ctx, c)
		}
		return r.Units.StartWith(ctx, c.unit(), properties(limits)...)
	})
	if err != nil && ctx.Err() == nil && !begun() && !r.alive(ctx, c.unit()) {
		return err
	}
	return nil
}

// errWithdrawn means that a command was cancelled before its unit was started.
var errWithdrawn = errors.New("it was cancelled before its start")

// withdraw ends the start of a command that has been cancelled while systemd did not answer.
func (r *Runner) withdraw(ctx context.Context, c *run) error {
	if err := r.Units.Stop(ctx, c.unit()); err != nil {
		return err
	}
	return errWithdrawn
}

// report wakes the callers that wait for a change of a command.
func (r *Runner) report() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.change(r.wake)
}

// lease returns the slot of the session of a command. If there is no other, it takes the slot of the session that has
// been idle for the longest time.
func (r *Runner) lease(ctx context.Context, c store.Live) (int, error) {
	for {
		var swept <-chan struct{}
		slot, err := r.Store.Lease(ctx, c.Session, c.Repository, time.Now(), func(p workspace.Pool) (int, error) {
			swept = r.sweeps.mark(p)
			return p.Lease(c.Repository, workspace.Bounds{Slots: r.Workspaces})
		})
		if !errors.Is(err, workspace.ErrPoolFull) {
			return slot, err
		}
		if swept != nil {
			select {
			case <-swept:
			case <-ctx.Done():
				return 0, ctx.Err()
			}
			continue
		}
		changed := r.Changed()
		found, closed := r.closeIdlest(ctx)
		if !found {
			return 0, err
		}
		if closed {
			continue
		}
		select { // the idle ones begin a command, or the store has no room
		case <-changed:
		case <-time.After(time.Second):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// closeIdlest reports whether it found idle sessions, and has closed the one that was used least recently, of those
// that did not begin a command meanwhile.
func (r *Runner) closeIdlest(ctx context.Context) (found, closed bool) {
	idle, err := r.Store.In(ctx, store.Viewer{All: true}, wire.SessionIdle)
	for _, s := range idle {
		if r.close(ctx, s.ID) {
			return true, true
		}
	}
	return err == nil && len(idle) > 0, false
}

// checkSecrets returns an error if the secrets of the session are gone: they lie in memory alone.
func (r *Runner) checkSecrets(c store.Live) error {
	if len(c.Secrets) > 0 && !r.hasSecrets(c.Session, c.Secrets) {
		return errors.New("the secrets of the session are gone with a restart of the host: make a new session")
	}
	return r.makeSession(c.Session, nil)
}

// await returns when root has recorded the end of the unit, the unit is gone, or ctx is done. The next command of the
// session starts after it: systemd takes a start of a unit that is active for done.
func (r *Runner) await(ctx context.Context, c *run) {
	arrived, stop, err := r.Watcher.Arrivals(r.dir(c.Session, c.Number))
	if err != nil {
		r.Logger.Warn("cannot watch a command, looking for its end every few seconds", "session", c.Session, "error",
			err)
		stop = func() {}
	}
	defer stop()
	poll := time.NewTicker(reconcileEvery)
	defer poll.Stop()
	for !r.has(c.Session, c.Number, paths.Ended) {
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

// end records the end of a command, unless it has been recorded before.
func (r *Runner) end(ctx context.Context, c *run, ending store.Ending) {
	select {
	case <-c.ended:
		return
	default:
	}
	if ending.Outcome.Word == outcome.WorkspaceFailed {
		r.examine(ctx, c)
	}
	ending.Artifacts = r.keep(c)
	for {
		err := r.Store.End(ctx, c.Session, c.Number, ending, time.Now())
		if err == nil {
			break
		}
		if errors.Is(err, store.ErrState) || ctx.Err() != nil {
			return // the next start of the daemon finds the files
		}
		r.Logger.Error("cannot record the end of a command, trying again", "session", c.Session, "command", c.Number,
			"error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
	if !c.ran && !ending.Started.IsZero() { // it was over before the daemon saw it
		r.recordStarted(c)
	}
	r.recordEnded(key{c.Session, c.Number}, c.unit(), ending)
	r.removeInput(c.Owner, key{c.Session, c.Number})
	r.mu.Lock()
	defer r.mu.Unlock()
	close(c.ended)
	r.state.change(r.wake)
}

// canceller is the user that has cancelled the command, or "".
func (r *Runner) canceller(c *run) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return c.cancelled
}

// overdue reports whether the guard has had the unit stopped because of the time.
func (r *Runner) overdue(c *run) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return c.overdue
}

// leave removes a command from the state after its unit has ended, and lets the next one of its session follow.
func (r *Runner) leave(ctx context.Context, c *run) {
	r.mu.Lock()
	s := &r.state
	delete(s.running, key{c.Session, c.Number})
	if s.perUser[c.Owner]--; s.perUser[c.Owner] == 0 {
		delete(s.perUser, c.Owner)
	}
	l := s.sessions[c.Session]
	l.running = false
	s.offer(c.Session)
	closing := s.settle(c.Session)
	s.change(r.wake)
	r.mu.Unlock()
	if closing {
		r.close(ctx, c.Session)
	}
}

// settle forgets a session without a command, and reports whether it is to be closed.
func (s *state) settle(session string) (closing bool) {
	l := s.sessions[session]
	if l == nil || l.running || len(l.waiting) > 0 {
		return false
	}
	delete(s.sessions, session)
	return l.closing
}

// ending is how a command ended, by the files that it left.
func (r *Runner) ending(c *run, cancelledBy string, refusal error) store.Ending {
	result, err := read(r.file(c.Session, c.Number, paths.Result), session.ReadResult)
	ended, endErr := read(r.file(c.Session, c.Number, paths.Ended), session.ReadEnded)
	if err := errors.Join(err, endErr); err != nil {
		r.Logger.Error("cannot read how a command ended", "session", c.Session, "command", c.Number, "error", err)
	}
	if ended == nil && refusal != nil {
		ended = &session.Ended{Refusal: refusal.Error()}
	}
	return endingOf(outcome.Facts{Result: result, Ended: ended, CancelledBy: cancelledBy, Overdue: r.overdue(c),
		DiskFull: r.full()})
}

// endingOf decides by facts.
func endingOf(f outcome.Facts) store.Ending {
	e := store.Ending{Ended: time.Now()}
	if f.Result != nil {
		e.Started, e.Invocation = f.Result.Started, f.Result.Invocation
		e.Usage = wire.Usage{
			Output: f.Result.Bytes, User: wire.Duration(f.Result.User), System: wire.Duration(f.Result.System),
			MemoryPeak: int64(f.Result.MemoryPeak),
		}
		e.ArtifactsFault = f.Result.ArtifactsFault
		if !f.Result.Ended.IsZero() {
			e.Ended = f.Result.Ended
		}
		if f.Result.CancelledBy != "" && f.CancelledBy != "" {
			f.Result.CancelledBy = f.CancelledBy
		}
	}
	if f.Ended != nil && !f.Ended.Time.IsZero() {
		e.Invocation, e.Usage.MemoryPeak = f.Ended.Invocation, int64(f.Ended.MemoryPeak)
		if f.Result == nil {
			e.Ended = f.Ended.Time
		}
	}
	e.Outcome = outcome.Decide(f)
	return e
}
