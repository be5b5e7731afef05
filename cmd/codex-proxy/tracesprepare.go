package main

import (
	"github.com/spf13/cobra"

	"codex-proxy/daemon/config"
	"codex-proxy/internal/cli"
	"codex-proxy/units/networks"
)

const tracesUnit = "codex-proxy-traces.service"

func tracesPrepareCommand() *cobra.Command {
	var from configFlags
	c := &cobra.Command{
		Use: "traces-prepare", Short: "let it reach the collector (codex-proxy-traces.service)",
		Long: `
Lets codex-proxy-traces.service reach the collector that [traces] names, and
nothing else, if that is given by its address; if it is given by a name, then
whatever that leads to. It sets IPAddressAllow= until the next boot.
ExecStartPre of that unit, as root.`,
	}
	from.register(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		settings, err := config.LoadTraces(from.path, from.set)
		if err != nil {
			return cli.Exit(cli.Config, err)
		}
		return networks.Allow(c.Context(), tracesUnit, networks.OfHost(settings.Host()))
	}
	return c
}
