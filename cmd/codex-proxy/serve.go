package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"codex-proxy/daemon"
	"codex-proxy/daemon/operators"
	"codex-proxy/daemon/reload"
	"codex-proxy/internal/cli"
	"codex-proxy/internal/journal"
	"codex-proxy/notify"
	"codex-proxy/notify/handoff"
	"codex-proxy/units/restartdelay"
)

func serveCommand() *cobra.Command {
	var from configFlags
	c := &cobra.Command{
		Use: "serve", Short: "the HTTP daemon (codex-proxy.service)",
		Long: `
Serves the OpenAI API, and Anthropic's Messages API, until SIGTERM or SIGINT,
which drain: turns in flight are finished, for up to drain_timeout. A second one
cuts them off. SIGHUP and codex-proxy reload hand over to a new process of the installed program without
losing a request; without systemd they are refused. Run by codex-proxy.service.

Where systemd has no growing restart delays (before 254), it first waits for what
is left of the delay that RestartSteps= and RestartMaxDelaySec= ask for.`,
	}
	from.register(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error { return serve(c.Context(), from, c.ErrOrStderr()) }
	return c
}

// serve is `codex-proxy serve`.
func serve(ctx context.Context, from configFlags, stderr io.Writer) error {
	daemon.LimitProcessors()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)
	predecessor, err := handoff.FromPredecessor()
	if err != nil {
		return err
	}
	status, err := serveWith(ctx, from, signals, predecessor, stderr)
	if err != nil {
		predecessor.Failed(err)
		return cli.Exit(status, err)
	}
	return nil
}

// serveWith returns the exit status of an error.
func serveWith(
	ctx context.Context, from configFlags, signals <-chan os.Signal, predecessor *handoff.Predecessor, stderr io.Writer,
) (status int, err error) {
	cfg, err := from.load()
	if err == nil {
		err = operators.CheckPages(cfg, predecessor)
	}
	if err != nil {
		return cli.Config, err
	}
	logger := slog.New(journal.NewHandler(journal.Proxy, stderr, cfg.LogLevel))
	notifier, err := notify.FromEnv(logger)
	if err != nil {
		return cli.Failure, err
	}
	if predecessor == nil && restartdelay.Await(ctx, notifier, logger) != nil {
		return cli.OK, nil // it was stopped
	}
	d, err := daemon.New(daemon.Settings{
		Config: cfg, Version: versionString(), Logger: logger, Notifier: notifier, Predecessor: predecessor,
	})
	if errors.Is(err, daemon.ErrExposed) || errors.Is(err, daemon.ErrControl) {
		return cli.Config, err
	}
	if err != nil {
		return cli.Failure, err
	}
	return cli.Failure, d.Run(ctx, signals)
}

func reloadCommand() *cobra.Command {
	return &cobra.Command{
		Use: "reload", Short: "replace the running daemon by the installed one",
		Long: `
Replaces the running daemon by a new process of the installed program, with the
configuration as it is now. No request is lost: turns in flight are finished by
the old process. If the new one does not become ready then the old one goes on
serving, and the reason is printed. Run by systemctl reload codex-proxy, which
leaves the reason in the journal and in systemctl status. That renews
codex-proxy-fetch.service, codex-proxy-traces.service and
codex-proxy-database.service, too; this command and
SIGHUP leave these with the program and the configuration that they have.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := reload.Request(c.Context(), reload.Path()); err != nil {
				return err
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), "a new process serves; the one before finishes its turns")
			return err
		},
	}
}

func launchCommand() *cobra.Command {
	c := &cobra.Command{
		Use: handoff.LaunchCommand + " PROGRAM [ARG]...", Short: "start the next daemon for a reload (run by serve)",
		Long: `
Starts the new process of a reload. Run by codex-proxy serve, which hands it a
socket; it is of no use otherwise.`,
		RunE: func(c *cobra.Command, args []string) error {
			return cli.Exit(handoff.Launch(args, os.Stdin, c.OutOrStdout()), nil)
		},
	}
	c.Flags().SetInterspersed(false) // the options after PROGRAM are its own
	return c
}
