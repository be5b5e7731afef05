package restartdelay

import (
	"context"
	"log/slog"
	"time"

	"codex-proxy/internal/cli"
	"codex-proxy/notify"
	"codex-proxy/units"
)

// stopBound is for one question to systemd.
const stopBound = 5 * time.Second

// AwaitOf is Await for a program of ExecStartPre= of the unit. It calls stopped if the unit is stopped meanwhile:
// systemd runs the next program of a start that is stopped if the one before it has succeeded. The error is then the
// error of stopped, with the exit status of the program.
func AwaitOf(ctx context.Context, unit string, logger *slog.Logger, stopped func() error) error {
	notifier, err := notify.FromEnv(logger)
	if err != nil {
		return err
	}
	if Await(ctx, notifier, logger) == nil {
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
