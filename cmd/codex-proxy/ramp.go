package main

import (
	"context"
	"errors"
	"time"

	"codex-proxy/units"
)

// resetBound is for one call of systemd, which answers at once or not at all.
const resetBound = 5 * time.Second

// resetRamp makes the next restart of our own unit an immediate one again, after
// as long a time of health as a worker needs for it. systemd never does so by
// itself while a unit runs.
func (d *daemon) resetRamp(ctx context.Context) error {
	if d.notifier == nil { // nobody restarts us
		return nil
	}
	healthy := time.NewTimer(d.cfg.ResetAfter)
	defer healthy.Stop()
	select {
	case <-healthy.C:
	case <-ctx.Done():
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, resetBound)
	defer cancel()
	err := d.manager.ResetFailed(bounded, proxyUnit)
	if err != nil && ctx.Err() == nil && !errors.Is(err, units.ErrNoBus) {
		d.logger.Warn("cannot reset the service's own restart delay", "unit", proxyUnit, "error", err)
	}
	return nil
}
