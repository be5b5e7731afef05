package main

import (
	"context"
	"flag"
	"io"
	"net/netip"

	"codex-proxy/cmd/internal/config"
)

const tracesPrepareUsage = `Usage: codex-proxy traces-prepare [--config FILE] [--set KEY=VALUE]...

Lets codex-proxy-traces.service reach the collector that [traces] names, and
nothing else, if that is given by its address; if it is given by a name, then
whatever that leads to. It sets IPAddressAllow= until the next boot.
ExecStartPre of that unit, as root.

  --config FILE       the file to read (/etc/codex-proxy/config.toml)
  --set KEY=VALUE     override one key
`

const tracesUnit = "codex-proxy-traces.service"

// tracesPrepare is the command of that name.
func tracesPrepare(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var from configFlags
	flags := flag.NewFlagSet("traces-prepare", flag.ContinueOnError)
	from.register(flags)
	if status, done := parseOnlyFlags(flags, args, tracesPrepareUsage, stdout, stderr); done {
		return status
	}
	settings, err := config.LoadTraces(from.path, from.set)
	if err != nil {
		return fail(stderr, "traces-prepare", err, exitConfig)
	}
	if err := allow(ctx, tracesUnit, collectorNetworks(settings.Host())); err != nil {
		return fail(stderr, "traces-prepare", err, exitFailure)
	}
	return exitOK
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
