package publicnet

import (
	"net"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPermitted(t *testing.T) {
	for text, want := range map[string]bool{
		"1.1.1.1": true, "93.184.215.14": true, "172.15.255.255": true, "172.32.0.0": true,
		"100.63.255.255": true, "100.128.0.0": true,
		"169.253.255.255": true, "223.255.255.255": true, "2606:4700::1111": true, "2a00:1450:4001::1": true,

		"0.0.0.0": false, "0.1.2.3": false, "127.0.0.1": false, "127.255.255.254": false,
		"10.0.0.1": false, "172.16.0.1": false, "172.31.255.255": false, "192.168.1.1": false,
		"100.64.0.1": false, "100.100.100.200": false, // carrier-grade NAT, and a cloud's metadata there
		"169.254.169.254": false, "169.254.170.2": false, "168.63.129.16": false, "192.0.0.192": false, // metadata
		"192.0.2.1": false, "198.51.100.1": false, "203.0.113.1": false, "198.18.0.1": false, "192.88.99.1": false,
		"224.0.0.1": false, "239.255.255.250": false, "240.0.0.1": false, "255.255.255.255": false,
		"::": false, "::1": false, "fe80::1": false, "fe80::1%lo": false, "fec0::1": false, "ff02::1": false,
		"fc00::1": false, "fd00:ec2::254": false, "fd20:ce::254": false, "100::1": false, "5f00::1": false,
		"2001:db8::1": false, "3fff::1": false, "2001:10::1": false,
		"::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "::ffff:169.254.169.254": false, "::ffff:1.1.1.1": true,
		"::127.0.0.1": false, "::1.1.1.1": false, "::ffff:0:1.1.1.1": false, // other ways to embed IPv4
		"64:ff9b::127.0.0.1": false, "64:ff9b::10.0.0.1": false, "64:ff9b::169.254.169.254": false,
		"64:ff9b::1.1.1.1":   true,
		"64:ff9b:1::1.1.1.1": false,                          // NAT64 with a prefix of the local network
		"2002:7f00:1::":      false, "2002:101:101::": false, // 6to4
		"2001:0:1:1::fefe:fefe": false, "2001:0:7f00:1::1": false, // Teredo
	} {
		assert.Equal(t, want, Permitted(netip.MustParseAddr(text), nil), text)
	}
	assert.False(t, Permitted(netip.Addr{}, nil))
}

func TestPermittedByTheOperator(t *testing.T) {
	allowed := Prefixes("10.1.0.0/16", "fd00::/8")
	for text, want := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "64:ff9b::10.1.2.3": true, "fd12::1": true,
		"10.2.0.1": false, "127.0.0.1": false, "fc00::1": false, "64:ff9b::10.2.0.1": false,
	} {
		assert.Equal(t, want, Permitted(netip.MustParseAddr(text), allowed), text)
	}
}

// An address of this host is not the public network, whatever its number.
func TestOwn(t *testing.T) {
	assert.True(t, own(netip.MustParseAddr("127.0.0.1")))
	assert.False(t, own(netip.MustParseAddr("192.0.2.1")))
	mine, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range mine {
		ip, ok := netip.AddrFromSlice(a.(*net.IPNet).IP)
		if ok && ip.Unmap().Is4() {
			assert.True(t, own(ip.Unmap()), ip)
		}
	}
}

// The unit makes the kernel enforce the same addresses.
func TestTheUnitForbidsTheSame(t *testing.T) {
	unit, err := os.ReadFile("../../packaging/systemd/codex-proxy-fetch.service")
	require.NoError(t, err)
	var denied []netip.Prefix
	for _, line := range regexp.MustCompile(`(?m)^IPAddressDeny=(.+)$`).FindAllStringSubmatch(string(unit), -1) {
		denied = append(denied, Prefixes(strings.Fields(line[1])...)...)
	}
	for _, p := range forbidden {
		assert.True(t, within(p.Addr(), denied), p)
		for _, d := range denied {
			if d.Contains(p.Addr()) {
				assert.LessOrEqual(t, d.Bits(), p.Bits(), "%s is only part of %s", d, p)
			}
		}
	}
	for _, d := range denied {
		assert.False(t, Permitted(d.Addr(), nil), "%s is denied by the unit alone", d)
	}
	for _, text := range []string{
		"::1", "fe80::1", "fd00::1", "ff02::1", "::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254",
	} {
		assert.True(t, within(netip.MustParseAddr(text), denied), text)
	}
}
