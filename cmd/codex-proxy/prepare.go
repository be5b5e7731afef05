package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"codex-proxy/cmd/internal/cli"
	"codex-proxy/cmd/internal/codexhome"
	"codex-proxy/cmd/internal/journal"
	"codex-proxy/cmd/internal/paths"
	"codex-proxy/cmd/internal/ramp"
	"codex-proxy/notify"
	"codex-proxy/units"
)

// stopBound is for one question to systemd.
const stopBound = 5 * time.Second

func workerPrepareCommand() *cobra.Command {
	return &cobra.Command{
		Use: "worker-prepare NAME", Short: "write a worker's codex configuration (codex-worker@.service)",
		Long: `
Makes the CODEX_HOME of the worker NAME from /etc/codex-proxy/workers/NAME.toml,
has codex check it, and links RUNTIME_DIRECTORY/codex to the program to run. It is
ExecStartPre of codex-worker@NAME.service and takes its directories from systemd:
STATE_DIRECTORY or CODEX_HOME, RUNTIME_DIRECTORY, CREDENTIALS_DIRECTORY,
CONFIGURATION_DIRECTORY.

Where systemd has no growing restart delays (before 254), it first waits for what
is left of the delay that RestartSteps= and RestartMaxDelaySec= ask for.`,
		RunE: func(c *cobra.Command, args []string) error {
			return prepareWorker(c.Context(), args[0], c.ErrOrStderr())
		},
	}
}

// prepareWorker prints what is wrong as one line, which systemd puts in the unit's journal.
func prepareWorker(ctx context.Context, name string, stderr io.Writer) error {
	if err := units.ValidName(name); err != nil {
		return cli.Exit(cli.Usage, err)
	}
	say := func(line string) {
		fmt.Fprintf(stderr, "codex-worker@%s: %s\n", name, strings.Join(strings.Fields(line), " "))
	}
	logger := slog.New(journal.NewHandler(stderr, slog.LevelInfo))
	notifier, err := notify.FromEnv(logger)
	if err != nil {
		return err
	}
	if ramp.Await(ctx, notifier, logger) != nil {
		return cli.Exit(stoppedStatus(ctx, name), nil)
	}
	notifier.Status("Starting: the configuration is written and checked")
	home, err := workerHome(name, say)
	if err == nil {
		err = home.Prepare(ctx)
	}
	if err != nil {
		say(err.Error())
		// `systemctl status` and, over D-Bus, the proxy's probes show it.
		// NotifyAccess=exec lets a command of ExecStartPre= do so.
		notifier.Status("Not started: " + err.Error())
	}
	return cli.Exit(prepareStatus(err), nil)
}

// stoppedStatus lets a stop of the unit during the wait for its restart be none of
// its failures. After any other signal nothing is prepared, and the start fails.
func stoppedStatus(ctx context.Context, worker string) int {
	ctx, cancel := context.WithTimeout(ctx, stopBound)
	defer cancel()
	manager := units.NewManager()
	defer manager.Close()
	unit, err := manager.Describe(ctx, units.Worker(worker))
	if err == nil && unit.ActiveState == "deactivating" {
		return cli.OK
	}
	return cli.TempFail
}

func prepareStatus(err error) int {
	var problem *codexhome.Problem
	switch {
	case err == nil:
		return cli.OK
	case errors.As(err, &problem):
		return cli.Config
	case errors.Is(err, codexhome.ErrRetry):
		return cli.TempFail
	}
	return cli.Failure
}

// workerHome takes the places that systemd gives the unit (systemd.exec(5), "Environment variables set or
// propagated by the service manager"). The first directory of a list is the one meant.
func workerHome(name string, note func(string)) (*codexhome.Home, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find codex-proxy itself: %w", err)
	}
	first := func(list string) string { dir, _, _ := strings.Cut(list, ":"); return dir }
	home := &codexhome.Home{
		Worker:      name,
		File:        filepath.Join(cmp.Or(first(os.Getenv("CONFIGURATION_DIRECTORY")), paths.Settings), "workers", name+".toml"),
		Dir:         cmp.Or(os.Getenv("CODEX_HOME"), first(os.Getenv("STATE_DIRECTORY"))),
		Runtime:     first(os.Getenv("RUNTIME_DIRECTORY")),
		Credentials: os.Getenv("CREDENTIALS_DIRECTORY"),
		Self:        self,
		SearchPath:  os.Getenv("PATH"),
		Note:        note,
	}
	if home.Dir == "" || home.Runtime == "" {
		return nil, &codexhome.Problem{Text: "STATE_DIRECTORY and RUNTIME_DIRECTORY are not set",
			Hint: "worker-prepare is run by codex-worker@.service, `systemctl start codex-worker@" + name + "`"}
	}
	return home, nil
}
