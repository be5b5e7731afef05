package daemon

import (
	"context"
	"os"
	"syscall"
	"time"

	"codex-proxy/cmd/internal/paths"
)

const (
	// jobTimeout bounds the question to systemd why the service stops.
	jobTimeout = time.Second
)

// heed does what signals ask for: SIGTERM and SIGINT stop, a second one hastens
// that, SIGHUP reloads.
func (d *Daemon) heed(ctx context.Context, signals <-chan os.Signal, stop, hasten func()) error {
	stopping := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case sig := <-signals:
			switch {
			case sig == syscall.SIGHUP:
				select {
				case d.handoff.requests <- make(chan error, 1):
				default: // one is under way
				}
			case stopping:
				d.logger.Warn("asked again to stop: turns in flight are cut off now")
				hasten()
			default:
				stopping = true
				stop()
			}
		}
	}
}

// restarting asks systemd whether it is about to start the service again, on the
// socket that there is. A socket that stops or restarts, too, as at a restart of
// codex.target, does so after us: who waits in it then is reset.
func (d *Daemon) restarting(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, jobTimeout)
	defer cancel()
	if !isRestart(d.job(ctx, paths.ServiceUnit)) {
		return false
	}
	socket := d.job(ctx, paths.SocketUnit) // none, if the socket is not systemd's
	return socket != "stop" && !isRestart(socket)
}

func (d *Daemon) job(ctx context.Context, unit string) string {
	job, err := d.manager.Job(ctx, unit)
	if err != nil {
		d.logger.Debug("cannot tell a restart from a stop", "error", err)
	}
	return job
}

func isRestart(job string) bool { return job == "restart" || job == "try-restart" }
