package main

import (
	"net/netip"

	"github.com/spf13/cobra"

	"codex-proxy/cmd/internal/cli"
	"codex-proxy/cmd/internal/config"
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
		return allow(c.Context(), tracesUnit, collectorNetworks(settings.Host()))
	}
	return c
}

// collectorNetworks are where the collector can be. What a name leads to may be
// another address tomorrow.
func collectorNetworks(host string) []netip.Prefix {
	switch host {
	case "":
		return nil
	case "localhost":
		return []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("::1/128")}
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		ip = ip.WithZone("").Unmap()
		return []netip.Prefix{netip.PrefixFrom(ip, ip.BitLen())}
	}
	return []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
}
