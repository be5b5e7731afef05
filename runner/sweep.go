package runner

import (
	"context"
	"errors"
	"time"

	"codex-proxy/runner/paths"
	"codex-proxy/runner/store"
)

// sweepHomes removes the homes of closed sessions, every few seconds until ctx ends: their users are gone, so that root
// has to do it. One that cannot be removed is tried again.
func (r *Runner) sweepHomes(ctx context.Context) {
	tick := time.NewTicker(reconcileEvery)
	defer tick.Stop()
	for {
		r.sweepAll(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (r *Runner) sweepAll(ctx context.Context) {
	homes, err := r.Store.Sweeps(ctx)
	for _, id := range homes {
		failed := r.Units.Start(ctx, paths.SweepUnit("session", id))
		if failed == nil {
			failed = r.Store.Swept(ctx, id)
		}
		err = errors.Join(err, failed)
	}
	if err != nil && ctx.Err() == nil {
		r.Logger.Warn("cannot remove the home of a session, trying again", "error", err)
	}
}

// expireInputs cancels the commands that wait too long for their standard input.
func (r *Runner) expireInputs(ctx context.Context, now time.Time) error {
	late, err := r.Store.AwaitingStdin(ctx, now.Add(-r.IdleTimeout))
	for _, c := range late {
		by := "codex-runner, as its standard input did not come within " + r.IdleTimeout.String()
		if failed := r.cancel(ctx, key{c.Session, c.Number}, by); failed != nil && !errors.Is(failed, store.ErrState) {
			err = errors.Join(err, failed)
		}
	}
	return err
}
