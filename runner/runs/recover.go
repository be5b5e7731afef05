package runs

import (
	"context"
	"errors"
	"fmt"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/queue"
	"codex-proxy/runner/store"
)

// Recover finds the commands of an earlier daemon: those that wait are queued, those that run are followed, and those
// that have ended meanwhile get their end. The units and the files of the sessions decide, not the store. It is called
// once, before Due, and returns how many commands there are.
func (r *Runs) Recover(ctx context.Context) (int, error) {
	commands, err := r.Commands.Live(ctx)
	if err != nil {
		return 0, fmt.Errorf("cannot read the store: %w", err)
	}
	active, err := r.Systemd.Sessions(ctx)
	if err != nil {
		return 0, err
	}
	for unit, runs := range active {
		if !runs {
			continue
		}
		if err := r.recoverEnding(ctx, unit); err != nil {
			return 0, fmt.Errorf("cannot read the store: %w", err)
		}
	}
	for _, c := range commands {
		r.Inputs.Restore(c.Owner, queue.KeyOf(c))
		if err := r.recover(ctx, c, active[UnitOf(c)]); err != nil {
			return 0, fmt.Errorf("cannot recover the session %s: %w", c.Session, err)
		}
	}
	return len(commands), nil
}

// recoverEnding follows a unit that runs though the end of its command is recorded. The next command of its session
// waits for it, and so does the close of the session.
func (r *Runs) recoverEnding(ctx context.Context, unit string) error {
	id, ok := paths.SessionOf(unit)
	if !ok {
		return nil
	}
	s, err := r.Sessions.Find(ctx, store.Viewer{All: true}, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	last := len(s.Commands) - 1
	for last >= 0 && !r.Files.Has(id, s.Commands[last].Number, paths.Output) {
		last--
	}
	if last < 0 || s.Commands[last].State != wire.CommandEnded {
		return nil
	}
	c := r.restore(store.Live{Session: id, Number: s.Commands[last].Number, Owner: s.Owner.UID, Network: s.Network})
	close(c.ended)
	return nil
}

// recover continues with one command. active reports that the unit of its session runs.
func (r *Runs) recover(ctx context.Context, c store.Live, active bool) error {
	begun := c.State != wire.CommandQueued && c.State != wire.CommandAwaitingStdin
	if begun && !active && !r.Files.Has(c.Session, c.Number, paths.Output) &&
		!r.Files.Has(c.Session, c.Number, paths.Ended) {
		// The unit was never started.
		if err := r.Commands.Move(ctx, c.Session, c.Number, c.State, wire.CommandQueued); err != nil {
			return err
		}
		c.State, begun = wire.CommandQueued, false
	}
	if !begun {
		r.Queue.Restore(c)
		return nil
	}
	found := r.restore(c)
	found.state.cancel(c.CancelledBy)
	if !active {
		found.lost = true
		close(found.gone)
	}
	return nil
}

// restore adds a command that runs, for Due.
func (r *Runs) restore(l store.Live) *run {
	r.Queue.RestoreRunning(l)
	c := r.add(l)
	c.state.start()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found = append(r.found, c)
	return c
}

// Reconcile finds units that have gone without a record of their end. One goroutine calls it, every few seconds. The
// list is read after the commands: the units of all of these have started.
func (r *Runs) Reconcile(ctx context.Context) {
	var started []*run
	for _, c := range r.all() {
		if c.state.hasStarted() {
			started = append(started, c)
		}
	}
	active, err := r.Systemd.Check(ctx)
	if err != nil {
		if ctx.Err() == nil {
			r.Logger.Warn("cannot find the sessions that run", "error", err)
		}
		return
	}
	for _, c := range started {
		if !active[c.unit] && !c.lost {
			c.lost = true
			close(c.gone)
		}
	}
}
