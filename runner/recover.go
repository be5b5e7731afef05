package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/store"
)

// Recover finds the commands of an earlier daemon: those that wait are queued, those that run are followed, and those
// that have ended meanwhile get their end. The units and the files of the sessions decide, not the store. It is called
// once, before Run, which follows the commands that run, and returns how many commands there are.
func (r *Runner) Recover(ctx context.Context) (int, error) {
	r.clearFetches()
	if err := r.clearSecrets(ctx); err != nil {
		return 0, err
	}
	commands, err := r.Store.Live(ctx)
	if err != nil {
		return 0, fmt.Errorf("cannot read the store: %w", err)
	}
	active, err := r.active(ctx)
	if err == nil {
		err = r.recoverEnvironments(ctx)
	}
	if err != nil {
		return 0, err
	}
	if err := r.recoverEnding(ctx, active); err != nil {
		return 0, err
	}
	for _, c := range commands {
		r.recoverInput(c)
		if err := r.recover(ctx, c, active[unitOf(c)]); err != nil {
			return 0, fmt.Errorf("cannot recover the session %s: %w", c.Session, err)
		}
	}
	return len(commands), nil
}

// recoverEnding finds the units that run though the end of their command is recorded. The next command of their session
// waits for them, and so does the close of the session.
func (r *Runner) recoverEnding(ctx context.Context, active map[string]bool) error {
	for unit, runs := range active {
		id, ok := paths.SessionOf(unit)
		if !ok || !runs {
			continue
		}
		s, err := r.Store.Session(ctx, store.Viewer{All: true}, id)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot read the store: %w", err)
		}
		last := len(s.Commands) - 1
		for last >= 0 && !r.has(id, s.Commands[last].Number, paths.Output) {
			last--
		}
		if last < 0 || s.Commands[last].State != wire.CommandEnded {
			continue
		}
		r.mu.Lock()
		c := r.state.start(store.Live{Session: id, Number: s.Commands[last].Number, Owner: s.Owner.UID,
			Network: s.Network})
		c.started = true
		close(c.ended)
		r.found = append(r.found, c)
		r.mu.Unlock()
	}
	return nil
}

// recover continues with one command. active reports that the unit of its session runs.
func (r *Runner) recover(ctx context.Context, c store.Live, active bool) error {
	begun := c.State != wire.CommandQueued && c.State != wire.CommandAwaitingStdin
	if begun && !active && !r.has(c.Session, c.Number, paths.Output) && !r.has(c.Session, c.Number, paths.Ended) {
		// The unit was never started.
		if err := r.Store.Move(ctx, c.Session, c.Number, c.State, wire.CommandQueued); err != nil {
			return err
		}
		c.State, begun = wire.CommandQueued, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !begun {
		r.state.enqueue(c)
		return nil
	}
	found := r.state.start(c)
	found.started, found.cancelled = true, c.CancelledBy
	if !active {
		found.lost = true
		close(found.gone)
	}
	r.found = append(r.found, found)
	return nil
}

// resume follows a command that Recover has found, to its end.
func (r *Runner) resume(ctx context.Context, c *run) {
	if c.Command.Limits.Timeout > 0 { // else its end is recorded
		r.allow(c, c.Command.Limits)
	}
	r.attend(ctx, c, func() error { return nil })
}

// active returns the units of sessions that run, or that systemd is about to start.
func (r *Runner) active(ctx context.Context) (map[string]bool, error) {
	active, err := r.activeUnits(ctx, paths.SessionUnit("*"), paths.OnlineUnit("*"))
	if err != nil {
		return nil, fmt.Errorf("cannot find the sessions that run: %w", err)
	}
	return active, nil
}

// activeUnits returns the active units that match one of the patterns by their names.
func (r *Runner) activeUnits(ctx context.Context, patterns ...string) (map[string]bool, error) {
	states, err := r.Units.List(ctx, patterns...)
	if err != nil {
		return nil, err
	}
	active := map[string]bool{}
	for _, s := range states {
		switch s.ActiveState {
		case "inactive", "failed":
			active[s.Unit] = s.JobPending
		default:
			active[s.Unit] = true
		}
	}
	return active, nil
}

// alive reports whether the unit runs; false if systemd does not answer.
func (r *Runner) alive(ctx context.Context, unit string) bool {
	active, err := r.active(ctx)
	return err == nil && active[unit]
}

// listBound bounds the wait of the loop of Run for systemd: the loop answers to the watchdog.
const listBound = 10 * time.Second

// reconcile finds units that have gone without a record of their end. The list is read after the commands: the units
// of all of these have started.
func (r *Runner) reconcile(ctx context.Context) {
	r.mu.Lock()
	var started []*run
	for _, c := range r.state.running {
		if c.started {
			started = append(started, c)
		}
	}
	r.mu.Unlock()
	bounded, cancel := context.WithTimeout(ctx, listBound)
	defer cancel()
	active, err := r.active(bounded)
	if ctx.Err() != nil {
		return
	}
	r.systemdAnswers(err == nil)
	if err != nil {
		r.Logger.Warn("cannot find the sessions that run", "error", err)
		return
	}
	for _, c := range started {
		if !active[c.unit()] && !c.lost {
			c.lost = true
			close(c.gone)
		}
	}
}

// expire cancels commands that wait too long for their input, closes sessions that have been idle for too long, and
// removes sessions after their retention.
func (r *Runner) expire(ctx context.Context, now time.Time) {
	everybody := store.Viewer{All: true}
	idle, err := r.Store.In(ctx, everybody, wire.SessionIdle)
	err = errors.Join(err, r.expireInputs(ctx, now))
	for _, s := range idle {
		if now.Sub(s.Used) >= r.IdleTimeout {
			r.close(ctx, s.ID)
		}
	}
	if err == nil {
		_, err = r.Prune(ctx, everybody, wire.Prune{}, now)
	}
	if err != nil {
		r.Logger.Error("cannot find the sessions that have expired", "error", err)
	}
}
