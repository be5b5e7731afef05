package main

import (
	"context"
	"errors"
	"log/slog"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"codex-proxy/internal/cli"
	"codex-proxy/internal/journal"
	"codex-proxy/notify"
	"codex-proxy/runner/config"
	service "codex-proxy/runner/daemon"
	"codex-proxy/runner/store"
)

func serveCommand() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use: "serve", Short: "the daemon (codex-runner.service)",
		Long: `
Serves the API on the socket of codex-runner.socket, queues commands, and starts the
units of sessions. SIGTERM stops it; sessions that run go on, and the next daemon finds
them. Run by codex-runner.service.

Exit status: 78 if a setting is wrong, or the store is of a newer version, 1 for other
errors.`,
		RunE: func(c *cobra.Command, _ []string) error {
			var level slog.LevelVar
			logger := slog.New(journal.NewHandler(journal.Runner, c.ErrOrStderr(), &level))
			notifier, err := notify.FromEnv(logger)
			if err != nil {
				return err
			}
			err = serve(c.Context(), path, &level, logger, notifier)
			if err != nil {
				notifier.Status("Failed: " + strings.Join(strings.Fields(err.Error()), " "))
			}
			return err
		},
	}
	c.Flags().StringVar(&path, "config", config.Path, "the settings `file`")
	return c
}

// serve runs the daemon with the settings in a file, until it gets a signal.
func serve(ctx context.Context, path string, level *slog.LevelVar, logger *slog.Logger,
	notifier *notify.Notifier) error {
	cfg, err := config.Load(path)
	if err != nil {
		return cli.Exit(cli.Config, err)
	}
	level.Set(cfg.LogLevel)
	ctx, stop := signal.NotifyContext(ctx, unix.SIGTERM, unix.SIGINT)
	defer stop()
	err = service.Run(ctx, service.Settings{Config: cfg, Version: versionString(), Logger: logger, Notifier: notifier})
	if errors.Is(err, store.ErrNewer) {
		return cli.Exit(cli.Config, err) // another try finds the same
	}
	return err
}
