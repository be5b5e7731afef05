package prepare

import (
	"context"
	"io"
	"log/slog"
	"time"

	"codex-proxy/cmd/internal/cli"
	"codex-proxy/cmd/internal/journal"
	"codex-proxy/cmd/internal/restartdelay"
	"codex-proxy/notify"
	"codex-proxy/units"
)

// stopBound is for one question to systemd.
const stopBound = 5 * time.Second

// Wait is `codex-proxy worker-wait`: it waits for the rest of the worker's restart delay.
func Wait(ctx context.Context, name string, stderr io.Writer) error {
	if err := units.ValidName(name); err != nil {
		return cli.Exit(cli.Usage, err)
	}
	return await(ctx, units.Worker(name), newLogger(stderr), func() error { return markStopped(runtimeDir()) })
}

func newLogger(stderr io.Writer) *slog.Logger {
	return slog.New(journal.NewHandler(journal.Proxy, stderr, slog.LevelInfo))
}

// await waits for the rest of the unit's restart delay. It calls stopped if the unit is stopped meanwhile: systemd
// runs the next program of a start that is stopped if the one before it has succeeded. The
// error is that of stopped then.
func await(ctx context.Context, unit string, logger *slog.Logger, stopped func() error) error {
	notifier, err := notify.FromEnv(logger)
	if err != nil {
		return err
	}
	if restartdelay.Await(ctx, notifier, logger) == nil {
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
