package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"codex-proxy/cmd/internal/socketservice"
	"codex-proxy/console/deliver"
	"codex-proxy/daemon"
	"codex-proxy/daemon/config"
	"codex-proxy/internal/cli"
	"codex-proxy/proxy/fetch"
	"codex-proxy/units/networks"
)

func fetchCommand() *cobra.Command {
	var from configFlags
	c := &cobra.Command{
		Use: "fetch", Short: "fetch images for the daemon, and send pushes (codex-proxy-fetch.service)",
		Long: `
Fetches images for the daemon, within the limits of [images], and sends encrypted pushes
to push services, until SIGTERM or SIGINT, or until nobody has asked for a while; what it
has begun it finishes. Without a good configuration it refuses all for 5 seconds, with
the reason, and exits with 78.
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
			console, err := config.LoadConsole(from.path, from.set)
			if err != nil {
				return nil, "", err
			}
			more := map[string]http.Handler{deliver.Route: deliver.New(console.PushPrivate)}
			return fetch.NewServer(fetch.New(daemon.FetchLimits(images)), idle, more, logger),
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

const (
	fetchUnit      = "codex-proxy-fetch.service"
	resolverConfig = "/etc/resolv.conf"
)

func fetchPrepareCommand() *cobra.Command {
	var from configFlags
	c := &cobra.Command{
		Use: "fetch-prepare", Short: "let it reach its name servers (codex-proxy-fetch.service)",
		Long: `
Lets codex-proxy-fetch.service reach the name servers of /etc/resolv.conf,
images.allow_private and console.push_private, and no other network that its
IPAddressDeny= names: it sets IPAddressAllow= until the next boot. ExecStartPre of that
unit, as root.`,
	}
	from.register(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error { return prepareFetch(c.Context(), from) }
	return c
}

func prepareFetch(ctx context.Context, from configFlags) error {
	images, err := config.LoadImages(from.path, from.set)
	if err != nil {
		return cli.Exit(cli.Config, err)
	}
	console, err := config.LoadConsole(from.path, from.set)
	if err != nil {
		return cli.Exit(cli.Config, err)
	}
	text, err := os.ReadFile(resolverConfig)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("cannot find the name servers: %w", err)
	}
	return networks.Allow(ctx, fetchUnit, slices.Concat(networks.NameServers(string(text)), images.AllowPrivate,
		console.PushPrivate))
}
