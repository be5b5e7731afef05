package daemon

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"codex-proxy/cmd/internal/paths"
	"codex-proxy/units"
)

// resetBound is for one call of systemd, which answers at once or not at all.
const resetBound = 5 * time.Second

// resetRamp makes the next restart of our own unit an immediate one again, after
// as long a time of health as a worker needs for it. systemd never does so by
// itself while a unit runs. It may just be busy, or the bus away: it is asked
// until it has done so.
func (d *Daemon) resetRamp(ctx context.Context) error {
	if d.notifier == nil { // nobody restarts us
		return nil
	}
	for level := slog.LevelWarn; ; level = slog.LevelDebug { // the warning comes once
		select {
		case <-time.After(d.cfg.ResetAfter):
		case <-ctx.Done():
			return nil
		}
		bounded, cancel := context.WithTimeout(ctx, resetBound)
		err := d.manager.ResetFailed(bounded, paths.ServiceUnit)
		cancel()
		if err == nil || ctx.Err() != nil || errors.Is(err, units.ErrNoBus) {
			return nil
		}
		d.logger.Log(ctx, level, "cannot reset the service's own restart delay", "unit", paths.ServiceUnit, "error", err)
	}
}
