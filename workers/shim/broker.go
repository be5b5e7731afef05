package shim

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"

	"codex-proxy/internal/paths"
	"codex-proxy/notify"
)

// BrokerVariable has the path of the socket of the worker's broker, in the environment of its unit. codex speaks TCP
// alone, and its network namespace has no way to the broker but this process.
const BrokerVariable = "CODEX_MODEL_BROKER"

// brokerConnections bounds the requests of codex in flight.
const brokerConnections = 1024

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

// leadToBroker relays connections of codex to its broker until the returned function is called; nothing without a
// broker.
func leadToBroker(ctx context.Context, logger *slog.Logger) (end func(), err error) {
	socket := os.Getenv(BrokerVariable)
	if socket == "" {
		return func() {}, nil
	}
	if err := alone(net.Interfaces()); err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", paths.BrokerAddress)
	if err != nil {
		return nil, fmt.Errorf("cannot lead codex to its broker: %w", err)
	}
	relay := &notify.Relay{Listeners: []net.Listener{l}, Target: socket, Limit: brokerConnections}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		relay.Run(ctx, logger)
	}()
	return func() { cancel(); <-done }, nil
}
