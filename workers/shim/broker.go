package shim

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"

	"codex-proxy/internal/paths"
	"codex-proxy/notify"
)

// BrokerVariable has the path of the socket of the worker's broker, in the environment of its unit. codex speaks TCP
// alone, and its network namespace has no way to the broker but this process.
const BrokerVariable = "CODEX_MODEL_BROKER"

// brokerConnections bounds the requests of codex in flight.
const brokerConnections = 1024

// HandsVariable has the path of the socket of the worker's hands, in the same way.
const HandsVariable = "CODEX_HANDS"

// ways are the addresses by which codex reaches sockets, by the variable of the unit that names the socket.
var ways = []struct{ variable, address string }{
	{BrokerVariable, paths.BrokerAddress}, {HandsVariable, paths.HandsAddress},
}

// alone is the error of a unit that others share the network with: they would use the provider's key.
func alone(interfaces []net.Interface, err error) error {
	if err != nil {
		return fmt.Errorf("cannot list the network interfaces: %w", err)
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagUp != 0 && i.Flags&net.FlagLoopback == 0 {
			return fmt.Errorf("network = \"model\", and the unit has the network interface %s: remove PrivateNetwork= and "+
				"NetworkNamespacePath= from its drop-ins; a machine without network namespaces needs network = \"host\"", i.Name)
		}
	}
	return nil
}

// leadOut relays connections of codex to its broker and its hands until the returned function is called; nothing
// without these.
func leadOut(ctx context.Context, logger *slog.Logger) (end func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var relaying sync.WaitGroup
	end = func() { cancel(); relaying.Wait() }
	for _, way := range ways {
		socket := os.Getenv(way.variable)
		if socket == "" {
			continue
		}
		relay, err := relayTo(ctx, way.address, socket)
		if err != nil {
			end()
			return nil, err
		}
		relaying.Go(func() { relay.Run(ctx, logger) })
	}
	return end, nil
}

// relayTo listens at an address of the unit's own network.
func relayTo(ctx context.Context, address, socket string) (*notify.Relay, error) {
	if err := alone(net.Interfaces()); err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot lead codex to %s: %w", socket, err)
	}
	return &notify.Relay{Listeners: []net.Listener{l}, Target: socket, Limit: brokerConnections}, nil
}
