package shim

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Others that share the network with codex would use the provider's key.
func TestAlone(t *testing.T) {
	of := []net.Interface{{Name: "lo", Flags: net.FlagUp | net.FlagLoopback}, {Name: "sit0"}}
	assert.NoError(t, alone(of, nil))
	assert.ErrorContains(t, alone(append(of, net.Interface{Name: "eth0", Flags: net.FlagUp}), nil),
		`network = "model", and the unit has the network interface eth0: remove PrivateNetwork=`)
}
