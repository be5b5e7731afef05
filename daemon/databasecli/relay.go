package databasecli

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"codex-proxy/daemon/config"
	"codex-proxy/internal/paths"
	"codex-proxy/units/networks"
)

const (
	relayUnit = "codex-proxy-database.service"
	// resolveBound is for the name of the server.
	resolveBound = 5 * time.Second
)

// PrepareRelay lets the relay reach the address of the server and nothing else, and gives it the address. Root alone
// can write into the directory of the file, as systemd passes the variables in it to commands of root, too.
func PrepareRelay(ctx context.Context, database config.Database) error {
	ctx, cancel := context.WithTimeout(ctx, resolveBound)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", database.Address.Host())
	if err != nil {
		return fmt.Errorf("cannot find the database: %w", err)
	}
	ip := found[0].Unmap()
	if err := os.MkdirAll(paths.DatabaseRelay, 0o755); err != nil {
		return err
	}
	line := "SERVER=" + net.JoinHostPort(ip.String(), database.Address.Port()) + "\n"
	if err := os.WriteFile(filepath.Join(paths.DatabaseRelay, "relay"), []byte(line), 0o644); err != nil {
		return err
	}
	return networks.Allow(ctx, relayUnit, []netip.Prefix{netip.PrefixFrom(ip.WithZone(""), ip.BitLen())})
}
