package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"codex-proxy/daemon/config"
	"codex-proxy/internal/cli"
	"codex-proxy/units/networks"
)

const (
	fetchUnit      = "codex-proxy-fetch.service"
	resolverConfig = "/etc/resolv.conf"
)

func fetchPrepareCommand() *cobra.Command {
	var from configFlags
	c := &cobra.Command{
		Use: "fetch-prepare", Short: "let it reach its name servers (codex-proxy-fetch.service)",
		Long: `
Lets codex-proxy-fetch.service reach the name servers of /etc/resolv.conf and
images.allow_private, and no other network that its IPAddressDeny= names: it
sets IPAddressAllow= until the next boot. ExecStartPre of that unit, as root.`,
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
	text, err := os.ReadFile(resolverConfig)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("cannot find the name servers: %w", err)
	}
	return networks.Allow(ctx, fetchUnit, slices.Concat(networks.NameServers(string(text)), images.AllowPrivate))
}
