package main

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"codex-proxy/cmd/internal/socketservice"
	"codex-proxy/daemon"
	"codex-proxy/daemon/config"
	"codex-proxy/internal/cli"
	"codex-proxy/proxy/fetch"
)

func fetchCommand() *cobra.Command {
	var from configFlags
	c := &cobra.Command{
		Use: "fetch", Short: "fetch images for the daemon (codex-proxy-fetch.service)",
		Long: `
Fetches images for the daemon, within the limits of [images], until SIGTERM or
SIGINT, or until nobody has asked for a while; what it has begun it finishes. Without a
good configuration it refuses all for 5 seconds, with the reason, and exits with 78.
Run by codex-proxy-fetch.service, which codex-proxy-fetch.socket starts.`,
	}
	from.register(c.Flags())
	idle := socketservice.IdleTime
	service := socketservice.Service{
		Socket: "fetch", Leaving: "Finishing what was asked for",
		Load: func(logger *slog.Logger) (socketservice.Server, string, error) {
			images, err := config.LoadImages(from.path, from.set)
			if err != nil {
				return nil, "", err
			}
			return fetch.NewServer(fetch.New(daemon.FetchLimits(images)), idle, logger),
				fmt.Sprintf("Ready: images up to %d bytes", images.MaxBytes), nil
		},
	}
	c.Flags().Var(cli.Duration(&idle), "exit-idle-time", "how long it waits for the next request")
	c.RunE = func(c *cobra.Command, _ []string) error {
		service.Command = c.CommandPath()
		return service.Run(c.Context(), c.ErrOrStderr())
	}
	return c
}
