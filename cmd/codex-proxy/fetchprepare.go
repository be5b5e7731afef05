package main

import (
	"bufio"
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"codex-proxy/cmd/internal/cli"
	"codex-proxy/cmd/internal/config"
	"codex-proxy/units"
)

const (
	fetchUnit      = "codex-proxy-fetch.service"
	resolverConfig = "/etc/resolv.conf"
	// allowBound is for one call of systemd.
	allowBound = 5 * time.Second
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
	return allow(ctx, fetchUnit, slices.Concat(nameServers(string(text)), images.AllowPrivate))
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
