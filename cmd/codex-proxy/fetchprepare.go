package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"codex-proxy/cmd/internal/config"
	"codex-proxy/units"
)

const fetchPrepareUsage = `Usage: codex-proxy fetch-prepare [--config FILE] [--set KEY=VALUE]...

Lets codex-proxy-fetch.service reach the name servers of /etc/resolv.conf and
images.allow_private, and no other network that its IPAddressDeny= names: it
sets IPAddressAllow= until the next boot. ExecStartPre of that unit, as root.

  --config FILE       the file to read (/etc/codex-proxy/config.toml)
  --set KEY=VALUE     override one key
`

const (
	fetchUnit      = "codex-proxy-fetch.service"
	resolverConfig = "/etc/resolv.conf"
	// allowBound is for one call of systemd.
	allowBound = 5 * time.Second
)

// fetchPrepare is the command of that name.
func fetchPrepare(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var from configFlags
	flags := flag.NewFlagSet("fetch-prepare", flag.ContinueOnError)
	from.register(flags)
	if status, done := parseOnlyFlags(flags, args, fetchPrepareUsage, stdout, stderr); done {
		return status
	}
	images, err := config.LoadImages(from.path, from.set)
	if err != nil {
		return fail(stderr, "fetch-prepare", err, exitConfig)
	}
	text, err := os.ReadFile(resolverConfig)
	if err != nil && !os.IsNotExist(err) {
		return fail(stderr, "fetch-prepare", fmt.Errorf("cannot find the name servers: %w", err), exitFailure)
	}
	if err := allow(ctx, fetchUnit, slices.Concat(nameServers(string(text)), images.AllowPrivate)); err != nil {
		return fail(stderr, "fetch-prepare", err, exitFailure)
	}
	return exitOK
}

// allow lets the unit reach those networks.
func allow(ctx context.Context, unit string, networks []netip.Prefix) error {
	ctx, cancel := context.WithTimeout(ctx, allowBound)
	defer cancel()
	manager := units.NewManager()
	defer manager.Close()
	return manager.AllowNetworks(ctx, unit, networks)
}

// nameServers are those that a program asks which reads resolv.conf(5) itself;
// without any, that is this host.
func nameServers(text string) []netip.Prefix {
	var servers []netip.Prefix
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		if ip, err := netip.ParseAddr(fields[1]); err == nil {
			ip = ip.WithZone("").Unmap()
			servers = append(servers, netip.PrefixFrom(ip, ip.BitLen()))
		}
	}
	if servers == nil {
		servers = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("::1/128")}
	}
	return servers
}
