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

	"codex-proxy/internal/cli"
	"codex-proxy/notify"
	"codex-proxy/units"
	"codex-proxy/units/bus"
	"codex-proxy/units/properties"
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
	w := wait{notifier: n, logger: logger}
	err := holdBack(ctx, w.goOn)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && !errors.Is(err, bus.ErrNoBus) {
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
func (w *wait) goOn(h holdback) {
	if !w.begun {
		w.begun = true
		w.notifier.Status(properties.HeldStatus(h.Restart, time.Now().Add(h.Wait)))
		w.logger.Info("restart waits: this systemd has no growing delays",
			"n_restarts", h.Restart, "wait", h.Wait.Round(time.Millisecond).String())
	}
	w.notifier.ExtendTimeout(h.Wait + h.StartTimeout)
}

// stopBound is for one question to systemd.
const stopBound = 5 * time.Second

// AwaitOf is Await for a program of ExecStartPre= of the unit. It calls stopped if the unit is stopped meanwhile:
// systemd runs the next program of a start that is stopped if the one before it has succeeded. The error is then the
// error of stopped, with the exit status of the program. then, if any, is the rest of the program's work: the same
// signals end its context.
func AwaitOf(ctx context.Context, unit string, logger *slog.Logger, then func(context.Context, *notify.Notifier),
	stopped func() error) error {
	notifier, err := notify.FromEnv(logger)
	if err != nil {
		return err
	}
	working, stop := signal.NotifyContext(ctx, stops...)
	defer stop()
	if Await(working, notifier, logger) == nil && then != nil {
		then(working, notifier)
	}
	if working.Err() == nil {
		return nil
	}
	status := stoppedStatus(ctx, unit)
	if status == cli.OK {
		err = stopped()
	}
	return cli.Exit(status, err)
}

// stoppedStatus is the exit status after a signal during the wait for a restart: a
// stop of the unit is no failure, and after any other signal the start fails.
func stoppedStatus(ctx context.Context, name string) int {
	ctx, cancel := context.WithTimeout(ctx, stopBound)
	defer cancel()
	manager := units.NewManager()
	defer manager.Close()
	unit, err := manager.Describe(ctx, name)
	if err == nil && unit.ActiveState == "deactivating" {
		return cli.OK
	}
	return cli.TempFail
}
