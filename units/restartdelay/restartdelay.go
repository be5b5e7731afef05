// Package restartdelay gives our units the growing restart delays of systemd 254 on
// older versions.
package restartdelay

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"codex-proxy/notify"
	"codex-proxy/units"
)

// stops are the signals that a unit may have as KillSignal=.
var stops = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2,
}

// Await waits for the rest of our own unit's restart delay, if systemd has no growing delays. Each program that may be
// the first of a unit with RestartSteps= calls it before any operation that may fail. STATUS= shows the end of the
// wait, from which TimeoutStartSec= counts anew. The error is the error of ctx: a signal of stops or ctx has ended the
// wait. Await does not wait if systemd does not answer.
func Await(ctx context.Context, n *notify.Notifier, logger *slog.Logger) error {
	if n == nil { // the process runs outside of a unit
		return nil
	}
	ctx, stop := signal.NotifyContext(ctx, stops...)
	defer stop()
	manager := units.NewManager()
	defer manager.Close()
	w := wait{notifier: n, logger: logger}
	err := manager.HoldBack(ctx, w.goOn)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && !errors.Is(err, units.ErrNoBus) {
		logger.Warn("the restart delay is not waited for", "error", err)
	}
	if w.begun {
		n.Status("Starting")
	}
	return nil
}

type wait struct {
	notifier *notify.Notifier
	logger   *slog.Logger
	begun    bool
}

// goOn extends the start timeout repeatedly: systemd drops the extension at a
// daemon-reload.
func (w *wait) goOn(h units.Holdback) {
	if !w.begun {
		w.begun = true
		w.notifier.Status(h.Status(time.Now().Add(h.Wait)))
		w.logger.Info("restart waits: this systemd has no growing delays",
			"n_restarts", h.Restart, "wait", h.Wait.Round(time.Millisecond).String())
	}
	w.notifier.ExtendTimeout(h.Wait + h.StartTimeout)
}
