package restarts

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"codex-proxy/internal/paths"
	"codex-proxy/units"
)

// Service is the unit of the service itself.
type Service struct {
	Systemd *units.Manager
	Logger  *slog.Logger
}

// ResetDelay resets the restart delay of the service after the healthy time that a worker needs for it. systemd resets
// no delay while a unit runs. While systemd is busy, or the bus away, it tries again.
func (s Service) ResetDelay(ctx context.Context, after time.Duration) error {
	for level := slog.LevelWarn; ; level = slog.LevelDebug { // the warning is logged once
		select {
		case <-time.After(after):
		case <-ctx.Done():
			return nil
		}
		bounded, cancel := context.WithTimeout(ctx, resetBound)
		err := s.Systemd.ResetFailed(bounded, paths.ServiceUnit)
		cancel()
		if err == nil || ctx.Err() != nil || errors.Is(err, units.ErrNoBus) {
			return nil
		}
		s.Logger.Log(ctx, level, "cannot reset the service's own restart delay", "unit", paths.ServiceUnit, "error",
			err)
	}
}

// jobTimeout bounds the question to systemd why the service stops.
const jobTimeout = time.Second

// Pending asks systemd whether it is about to start the service again, on the socket that there is. A socket that stops
// or restarts, too, as at a restart of codex.target, does so after the service: connections that wait in it are reset.
func (s Service) Pending(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, jobTimeout)
	defer cancel()
	job := func(unit string) string {
		job, err := s.Systemd.Job(ctx, unit)
		if err != nil {
			s.Logger.Debug("cannot tell a restart from a stop", "error", err)
		}
		return job
	}
	if !isRestart(job(paths.ServiceUnit)) {
		return false
	}
	socket := job(paths.SocketUnit) // none, if the socket is not systemd's
	return socket != "stop" && !isRestart(socket)
}

func isRestart(job string) bool { return job == "restart" || job == "try-restart" }
