// Package publicnet recognises public addresses: others can be reached only from this host or its own network.
package publicnet

import (
	"net"
	"net/netip"
	"slices"
)

// forbidden are the networks outside the public one: the special-purpose registries
// of IANA (RFC 6890), and Azure's platform address. IPAddressDeny= of
// codex-proxy-fetch.service has them, too.
var forbidden = Prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
	"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
	"168.63.129.16/32", "224.0.0.0/4", "240.0.0.0/4",
	// Within global unicast: Teredo and other protocols, documentation, 6to4.
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
)

// globalUnicast is all of IPv6 that is in public use (RFC 4291, 2.4): neither
// loopback, link-local, unique local, multicast nor an IPv4 address in disguise.
var globalUnicast = netip.MustParsePrefix("2000::/3")

// nat64 leads to the IPv4 address in its last four bytes (RFC 6052, 2.1). Hosts
// without IPv4 reach all of IPv4 that way.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// Prefixes are networks by their texts, which are right.
func Prefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// Permitted reports whether ip may be connected to: it is public, or the
// operator allows it.
func Permitted(ip netip.Addr, allowed []netip.Prefix) bool {
	ip = ip.Unmap()
	if nat64.Contains(ip) {
		bytes := ip.As16()
		ip = netip.AddrFrom4([4]byte(bytes[12:]))
	}
	if within(ip, allowed) {
		return true
	}
	if ip.Is6() && !globalUnicast.Contains(ip) { // no address with a zone is in it, either
		return false
	}
	return ip.IsValid() && !within(ip, forbidden) && !own(ip)
}

func within(ip netip.Addr, all []netip.Prefix) bool {
	return slices.ContainsFunc(all, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// own reports whether ip is an address of this host itself: a service on it may be out
// of reach for other hosts. Such an address is its own best source, as the local
// address of a connected UDP socket shows. Connecting one sends nothing.
func own(ip netip.Addr) bool {
	const discard = 9 // any port will do
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip, discard)))
	if err != nil {
		return false // there is no route to it
	}
	defer func() { _ = conn.Close() }()
	source, ok := conn.LocalAddr().(*net.UDPAddr)
	return ok && source.AddrPort().Addr().Unmap() == ip
}
