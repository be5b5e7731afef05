package daemon

import (
	"context"
	"log/slog"
	"time"

	"codex-proxy/internal/paths"
	"codex-proxy/units"
)

// jobTimeout bounds the question to systemd why the service stops.
const jobTimeout = time.Second

// restarting asks systemd whether it is about to start the service again, on the socket
// that there is. A socket that stops or restarts, too, as at a restart of codex.target,
// does so after the service: connections that wait in it are reset.
func restarting(ctx context.Context, systemd *units.Manager, logger *slog.Logger) bool {
	ctx, cancel := context.WithTimeout(ctx, jobTimeout)
	defer cancel()
	job := func(unit string) string {
		job, err := systemd.Job(ctx, unit)
		if err != nil {
			logger.Debug("cannot tell a restart from a stop", "error", err)
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
