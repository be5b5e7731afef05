package machine

import "net"

// Listen listens inside the machine's network; the test serves what its
// programs connect to. The listener outlives neither the machine's network nor
// its own Close.
func (m *Machine) Listen(network, address string) (net.Listener, error) {
	if m.options.ShareNetwork {
		return net.Listen(network, address)
	}
	return inNetwork(m, func() (net.Listener, error) { return net.Listen(network, address) })
}
