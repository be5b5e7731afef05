// Package networks opens networks to a unit that has IPAddressDeny=.
package networks

import (
	"bufio"
	"context"
	"net/netip"
	"strings"
	"time"

	"codex-proxy/units"
)

// allowBound is for one call of systemd.
const allowBound = 5 * time.Second

// Allow sets IPAddressAllow= of a unit until the next boot. It needs root.
func Allow(ctx context.Context, unit string, networks []netip.Prefix) error {
	ctx, cancel := context.WithTimeout(ctx, allowBound)
	defer cancel()
	manager := units.NewManager()
	defer manager.Close()
	return manager.AllowNetworks(ctx, unit, networks)
}

// NameServers returns the name servers of a text in the format of resolv.conf(5):
// this host, if the text names none.
func NameServers(text string) []netip.Prefix {
	var servers []netip.Prefix
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		if ip, err := netip.ParseAddr(fields[1]); err == nil {
			servers = append(servers, single(ip))
		}
	}
	if servers == nil {
		servers = loopback()
	}
	return servers
}

// OfHost returns the networks in which a host can be: its address, or every
// address if it is given by a name, which may lead to another one tomorrow.
func OfHost(host string) []netip.Prefix {
	switch host {
	case "":
		return nil
	case "localhost":
		return loopback()
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Prefix{single(ip)}
	}
	return []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
}

func loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("::1/128")}
}

func single(ip netip.Addr) netip.Prefix {
	ip = ip.WithZone("").Unmap()
	return netip.PrefixFrom(ip, ip.BitLen())
}
