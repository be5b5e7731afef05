package exec

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"codex-proxy/runner/api/wire"
	forward "codex-proxy/runner/ports"
)

const (
	// mostConnections bounds the connections to ports of a session. Each takes two files and two buffers of this
	// process, which shares the limits of the session.
	mostConnections = 64
	// dialBound bounds a connection to a server that listens and accepts none.
	dialBound = 3 * time.Second
	// portDrain bounds the time in which answers are passed on that a server has sent before the end of the command.
	portDrain = time.Second
)

// loopbacks are the addresses at which servers are looked for, in this order.
var loopbacks = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}

// ports are the connections to ports of the session.
type ports struct {
	*forward.Relays

	slots chan struct{}
}

func newPorts() ports {
	return ports{&forward.Relays{Session: true}, make(chan struct{}, mostConnections)}
}

// port connects to a port of the session's own loopback, as a process of the session, and relays the connection. The
// error is about one that was not made.
func (r *run) port(request Request, conn net.Conn, input *bufio.Reader) error {
	select {
	case r.ports.slots <- struct{}{}:
		defer func() { <-r.ports.slots }()
	default:
		return fmt.Errorf("it has %d connections to its ports already", mostConnections)
	}
	server, err := dialPort(request.Port)
	if err != nil {
		return err
	}
	reply, _ := r.observe()
	if err = send(conn, reply); err == nil {
		err = conn.SetWriteDeadline(time.Time{})
	}
	if err != nil {
		_ = server.Close()
		return nil //nolint:nilerr // the daemon is gone
	}
	_ = r.ports.Relay(server, wire.NewPortStream(conn, input)) // both sides get to know
	return nil
}

func dialPort(port uint16) (*net.TCPConn, error) {
	dialer := net.Dialer{Timeout: dialBound, KeepAlive: -1}
	for _, address := range loopbacks {
		conn, err := dialer.Dial("tcp", netip.AddrPortFrom(address, port).String())
		if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
			return tcp, nil
		}
		if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.EADDRNOTAVAIL) {
			return nil, fmt.Errorf("port %d does not answer: %w", port, err)
		}
	}
	return nil, fmt.Errorf("no program listens on port %d, on 127.0.0.1 or ::1", port)
}
