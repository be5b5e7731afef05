package runner

import (
	"context"
	"errors"
	"time"

	"codex-proxy/units"
)

const (
	// firstPause and lastPause are the pauses between two requests to a systemd that does not answer.
	firstPause, lastPause = 100 * time.Millisecond, time.Second
	// unavailableBound is how long systemd may refuse for a reason that may pass. At a restart of the bus polkit is
	// away, too, and its unit may run into its start limit.
	unavailableBound = time.Minute
)

// insist makes a request to systemd until that answers. A bus or a systemd that is away is no refusal: the request may
// have arrived. settled ends the wait, as it reports that there is nothing to ask for any more.
func (r *Runner) insist(ctx context.Context, settled func() bool, request func() error) error {
	var refused time.Time
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := request()
		if err == nil && pause > firstPause {
			r.systemdAnswers(true)
		}
		switch {
		case err == nil || ctx.Err() != nil || settled():
			return err
		case errors.Is(err, units.ErrUnanswered):
			refused = time.Time{}
		case !errors.Is(err, units.ErrUnavailable):
			return err
		case refused.IsZero():
			refused = time.Now()
		case time.Since(refused) > unavailableBound:
			return err
		}
		r.systemdAnswers(false)
		r.Logger.Debug("systemd does not answer, asking again", "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// never is a settled of insist.
func never() bool { return false }

// stop stops a unit, as soon as systemd answers.
func (r *Runner) stop(ctx context.Context, unit string) error {
	return r.insist(ctx, never, func() error { return r.Units.Stop(ctx, unit) })
}
