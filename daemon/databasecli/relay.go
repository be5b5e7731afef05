package databasecli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"codex-proxy/daemon/config"
	"codex-proxy/internal/paths"
	"codex-proxy/units/networks"
)

const (
	relayUnit      = "codex-proxy-database.service"
	resolverConfig = "/etc/resolv.conf"
	// resolveBound is for the name of the server: a name server that does not answer costs 5 s before the next one.
	resolveBound = 12 * time.Second
	// maxAddresses is how many addresses of the server the relay tries.
	maxAddresses = 4
)

// PrepareRelay lets the relay reach the addresses of the server and nothing else, and gives it the addresses. Root alone
// can write into the directory of the file, as systemd passes the variables in it to commands of root, too.
func PrepareRelay(ctx context.Context, database config.Database) error {
	ctx, cancel := context.WithTimeout(ctx, resolveBound)
	defer cancel()
	found, err := resolve(ctx, database.Address.Host())
	if err != nil {
		return fmt.Errorf("cannot find the database: %w", err)
	}
	var servers []string
	var allowed []netip.Prefix
	for _, ip := range found[:min(len(found), maxAddresses)] {
		servers = append(servers, net.JoinHostPort(ip.Unmap().String(), database.Address.Port()))
		allowed = append(allowed, networks.OfHost(ip.String())...)
	}
	if err := os.MkdirAll(paths.DatabaseRelay, 0o755); err != nil {
		return err
	}
	line := "SERVER=" + strings.Join(servers, " ") + "\n"
	if err := os.WriteFile(filepath.Join(paths.DatabaseRelay, "relay"), []byte(line), 0o644); err != nil {
		return err
	}
	return networks.Allow(ctx, relayUnit, allowed)
}

// resolve finds the addresses. IPAddressDeny= of the unit holds for this process, too, so that it first lets itself reach
// the name servers.
func resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	text, err := os.ReadFile(resolverConfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := networks.Allow(ctx, relayUnit, networks.NameServers(string(text))); err != nil {
		return nil, err
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}
