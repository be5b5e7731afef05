// Package ramp gives our units the growing restart delays of systemd 254 on
// older versions, too.
package ramp

import (
	"context"
	"errors"
	"log/slog"
	"os/signal"
	"syscall"
	"time"

	"codex-proxy/notify"
	"codex-proxy/units"
)

// Await waits for what is left of the restart delay of the unit that runs us, if
// systemd has no growing delays. Each program that may be the first of a unit with
// RestartSteps= calls it before anything that may fail. STATUS= says until when,
// and TimeoutStartSec= begins anew with the end of the wait. The error, of ctx,
// means that SIGTERM, SIGINT or ctx has ended the wait. If systemd does not answer,
// nothing is waited for.
func Await(ctx context.Context, n *notify.Notifier, logger *slog.Logger) error {
	if n == nil { // no unit
		return nil
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
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

// goOn asks again and again for time: systemd forgets at a daemon-reload what it
// was asked for.
func (w *wait) goOn(h units.Holdback) {
	if !w.begun {
		w.begun = true
		w.notifier.Status(h.Status(time.Now().Add(h.Wait)))
		w.logger.Info("restart waits: this systemd has no growing delays",
			"n_restarts", h.Restart, "wait", h.Wait.Round(time.Millisecond).String())
	}
	w.notifier.ExtendTimeout(h.Wait + h.StartTimeout)
}
