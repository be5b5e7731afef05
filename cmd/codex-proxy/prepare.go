package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"codex-proxy/cmd/internal/codexhome"
	"codex-proxy/cmd/internal/journal"
	"codex-proxy/cmd/internal/ramp"
	"codex-proxy/notify"
	"codex-proxy/units"
)

// exitTempFail is EX_TEMPFAIL of sysexits.h: another try may succeed, so systemd should make one.
const exitTempFail = 75

// stopBound is for one question to systemd.
const stopBound = 5 * time.Second

const prepareUsage = `Usage: codex-proxy worker-prepare NAME

Makes the CODEX_HOME of the worker NAME from /etc/codex-proxy/workers/NAME.toml, has codex check it, and
links RUNTIME_DIRECTORY/codex to the program to run. It is ExecStartPre of codex-worker@NAME.service and
takes its directories from systemd: STATE_DIRECTORY or CODEX_HOME, RUNTIME_DIRECTORY,
CREDENTIALS_DIRECTORY, CONFIGURATION_DIRECTORY.

Where systemd has no growing restart delays (before 254), it first waits for what
is left of the delay that RestartSteps= and RestartMaxDelaySec= ask for.
`

// workerPrepare runs `codex-proxy worker-prepare` and returns its exit status. What is wrong is one line on
// stderr, which systemd puts in the unit's journal.
func workerPrepare(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("worker-prepare", flag.ContinueOnError)
	if status, done := parseFlags(flags, args, prepareUsage, stdout, stderr); done {
		return status
	}
	if args = flags.Args(); len(args) != 1 {
		fmt.Fprint(stderr, prepareUsage)
		return exitUsage
	}
	if err := units.ValidName(args[0]); err != nil {
		return fail(stderr, "worker-prepare", err, exitUsage)
	}
	say := func(line string) {
		fmt.Fprintf(stderr, "codex-worker@%s: %s\n", args[0], strings.Join(strings.Fields(line), " "))
	}
	logger := slog.New(journal.NewHandler(stderr, slog.LevelInfo))
	notifier, err := notify.FromEnv(logger)
	if err != nil {
		return fail(stderr, "worker-prepare", err, exitFailure)
	}
	if ramp.Await(ctx, notifier, logger) != nil {
		return stoppedStatus(ctx, args[0])
	}
	notifier.Status("Starting: the configuration is written and checked")
	home, err := workerHome(args[0], say)
	if err == nil {
		err = home.Prepare(ctx)
	}
	if err != nil {
		say(err.Error())
		// `systemctl status` and, over D-Bus, the proxy's probes show it.
		// NotifyAccess=exec lets a command of ExecStartPre= do so.
		notifier.Status("Not started: " + err.Error())
	}
	return prepareStatus(err)
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
		return exitOK
	}
	return exitTempFail
}

func prepareStatus(err error) int {
	var problem *codexhome.Problem
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &problem):
		return exitConfig
	case errors.Is(err, codexhome.ErrRetry):
		return exitTempFail
	}
	return exitFailure
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
		File:        filepath.Join(cmp.Or(first(os.Getenv("CONFIGURATION_DIRECTORY")), "/etc/codex-proxy"), "workers", name+".toml"),
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
