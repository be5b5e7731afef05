package runner

import (
	"context"
	"errors"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/queue"
	"codex-proxy/runner/store"
	"codex-proxy/runner/systemd"
)

// expiry ends the things that nobody uses any more.
type expiry struct {
	*Sessions

	systemd *systemd.Client
	idle    time.Duration
	longest time.Duration // that a session may ask for
}

// idleTime is how long a session stays open without a command.
func (e expiry) idleTime(asked time.Duration) time.Duration {
	if asked == 0 {
		return e.idle
	}
	return min(asked, e.longest)
}

// expire cancels commands that wait too long for their input, closes sessions that have been idle for too long, and
// removes sessions after their retention.
func (e expiry) expire(ctx context.Context, now time.Time) {
	everybody := store.Viewer{All: true}
	idle, err := e.store.Sessions.In(ctx, everybody, wire.SessionIdle)
	err = errors.Join(err, e.expireInputs(ctx, now))
	for _, s := range idle {
		if now.Sub(s.Used) >= e.idleTime(s.Idle) {
			closer{e.Sessions}.close(ctx, s.ID)
		}
	}
	if err == nil {
		_, err = e.Prune(ctx, everybody, wire.Prune{}, now)
	}
	if err != nil {
		e.logger.Error("cannot find the sessions that have expired", "error", err)
	}
}

// expireInputs cancels the commands that wait too long for their standard input.
func (e expiry) expireInputs(ctx context.Context, now time.Time) error {
	late, err := e.store.Commands.AwaitingStdin(ctx, now.Add(-e.idle))
	for _, c := range late {
		by := "codex-runner, as its standard input did not come within " + e.idle.String()
		if failed := e.runs.Cancel(ctx, queue.KeyOf(c), by); failed != nil && !errors.Is(failed, store.ErrState) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// removeHomes removes the homes of closed sessions, every few seconds until ctx ends: their users are gone, so that
// root has to do it. One that cannot be removed is tried again.
func (e expiry) removeHomes(ctx context.Context) {
	tick := time.NewTicker(reconcileEvery)
	defer tick.Stop()
	for {
		homes, err := e.store.Sessions.Sweeps(ctx)
		for _, id := range homes {
			err = errors.Join(err, e.removeHome(ctx, id))
		}
		if err != nil && ctx.Err() == nil {
			e.logger.Warn("cannot remove the home of a session, trying again", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (e expiry) removeHome(ctx context.Context, id string) error {
	if err := e.systemd.Start(ctx, paths.SweepUnit("session", id)); err != nil {
		return err
	}
	return e.store.Sessions.Swept(ctx, id)
}
