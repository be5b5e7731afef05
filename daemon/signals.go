package daemon

import (
	"context"
	"log/slog"
	"os"
	"syscall"
)

// signalHandler carries out signals.
type signalHandler struct {
	reload func() // does not block
	stop   func()
	hasten func() // cuts turns in flight off
	logger *slog.Logger
}

// run carries out signals until ctx ends: SIGTERM and SIGINT stop, a second one hastens
// that, SIGHUP reloads.
func (h signalHandler) run(ctx context.Context, signals <-chan os.Signal) error {
	stopping := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case sig := <-signals:
			switch {
			case sig == syscall.SIGHUP:
				h.reload()
			case stopping:
				h.logger.Warn("asked again to stop: turns in flight are cut off now")
				h.hasten()
			default:
				stopping = true
				h.stop()
			}
		}
	}
}
