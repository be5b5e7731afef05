package main

import (
	"log/slog"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"codex-proxy/cmd/internal/cli"
	"codex-proxy/cmd/internal/journal"
	"codex-proxy/notify"
	"codex-proxy/runner/config"
	service "codex-proxy/runner/daemon"
)

func serveCommand() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use: "serve", Short: "the daemon (codex-runner.service)",
		Long: `
Serves the API on the socket of codex-runner.socket, queues commands, and starts the
units of sessions. SIGTERM stops it; sessions that run go on, and the next daemon finds
them. Run by codex-runner.service.

Exit status: 78 if a setting is wrong, 1 for other errors.`,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := config.Load(path)
			if err != nil {
				return cli.Exit(cli.Config, err)
			}
			logger := slog.New(journal.NewHandler(journal.Runner, c.ErrOrStderr(), cfg.LogLevel))
			notifier, err := notify.FromEnv(logger)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(c.Context(), unix.SIGTERM, unix.SIGINT)
			defer stop()
			return service.Run(ctx, service.Settings{
				Config: cfg, Version: versionString(), Logger: logger, Notifier: notifier,
			})
		},
	}
	c.Flags().StringVar(&path, "config", config.Path, "the settings `file`")
	return c
}
