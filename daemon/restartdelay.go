package daemon

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"codex-proxy/internal/paths"
	"codex-proxy/units"
)

// newResets resets the restart delays of dependencies and remotes that are healthy again.
func newResets(after time.Duration, systemd *units.Manager, logger *slog.Logger) *units.Resets {
	return units.NewResets(after, systemd.ResetFailed, func(unit string, err error) {
		logger.Warn("cannot reset the restart delay of a unit", "unit", unit, "error", err)
	})
}

// resetBound is the longest that one call of systemd takes: it answers at once or not at
// all.
const resetBound = 5 * time.Second

// resetRestartDelay resets the restart delay of the service's own unit after reset_after,
// the healthy time that a worker needs for it. systemd resets no delay while a unit runs.
// While systemd is busy, or the bus away, it tries again.
func resetRestartDelay(ctx context.Context, after time.Duration, systemd *units.Manager, logger *slog.Logger) error {
	for level := slog.LevelWarn; ; level = slog.LevelDebug { // the warning is logged once
		select {
		case <-time.After(after):
		case <-ctx.Done():
			return nil
		}
		bounded, cancel := context.WithTimeout(ctx, resetBound)
		err := systemd.ResetFailed(bounded, paths.ServiceUnit)
		cancel()
		if err == nil || ctx.Err() != nil || errors.Is(err, units.ErrNoBus) {
			return nil
		}
		logger.Log(ctx, level, "cannot reset the service's own restart delay", "unit", paths.ServiceUnit, "error", err)
	}
}
