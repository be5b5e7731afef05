package main

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNameServers(t *testing.T) {
	own := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("::1/128")}
	assert.Equal(t, own, nameServers(""))
	assert.Equal(t, own, nameServers("# nameserver 10.0.0.1\nsearch nameserver.example\nnameserver\nnameserver x\n"))
	assert.Equal(t, []netip.Prefix{
		netip.MustParsePrefix("127.0.0.53/32"), netip.MustParsePrefix("10.0.0.2/32"),
		netip.MustParsePrefix("fe80::1/128"), netip.MustParsePrefix("192.168.1.1/32"),
	}, nameServers("options edns0\nnameserver 127.0.0.53 # stub\n nameserver\t10.0.0.2\nnameserver fe80::1%eth0\nnameserver ::ffff:192.168.1.1"))
}

func TestFetchSaysWhatIsWrong(t *testing.T) {
	for _, command := range []string{"fetch", "fetch-prepare"} {
		got := try(t, command, "--config", configured(t, "[images]\ntimeout = '2h'"))
		assert.Equal(t, exitConfig, got.status)
		assert.Contains(t, got.stderr, "codex-proxy "+command+": ")
		assert.Contains(t, got.stderr, `images.timeout = "2h0m0s": must be between`)
	}
	good := configured(t, "")
	got := try(t, "fetch", "--config", good, "--exit-idle-time", "0s")
	assert.Equal(t, exitUsage, got.status)
	assert.Contains(t, got.stderr, "want a positive time with its unit")
	got = try(t, "fetch", "--config", good)
	assert.Equal(t, exitFailure, got.status)
	assert.Contains(t, got.stderr, `cannot find the inherited socket "fetch"`)
}
