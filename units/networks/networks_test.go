package networks

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNameServers(t *testing.T) {
	own := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("::1/128")}
	assert.Equal(t, own, NameServers(""))
	assert.Equal(t, own, NameServers("# nameserver 10.0.0.1\nsearch nameserver.example\nnameserver\nnameserver x\n"))
	assert.Equal(t, []netip.Prefix{
		netip.MustParsePrefix("127.0.0.53/32"), netip.MustParsePrefix("10.0.0.2/32"),
		netip.MustParsePrefix("fe80::1/128"), netip.MustParsePrefix("192.168.1.1/32"),
	}, NameServers("options edns0\nnameserver 127.0.0.53 # stub\n nameserver\t10.0.0.2\nnameserver fe80::1%eth0\nnameserver ::ffff:192.168.1.1"))
}

func TestNetworksOfAHost(t *testing.T) {
	for host, want := range map[string][]string{
		"": nil, "localhost": {"127.0.0.1/32", "::1/128"}, "10.1.2.3": {"10.1.2.3/32"}, "::ffff:10.1.2.3": {"10.1.2.3/32"},
		"fe80::1%eth0": {"fe80::1/128"}, "collector.example": {"0.0.0.0/0", "::/0"},
	} {
		var prefixes []netip.Prefix
		for _, p := range want {
			prefixes = append(prefixes, netip.MustParsePrefix(p))
		}
		assert.Equal(t, prefixes, OfHost(host), host)
	}
}
