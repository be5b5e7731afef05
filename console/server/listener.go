package server

import (
	"net"
	"sync"
)

// maxConnections bounds the connections: every user of this host can make some.
const maxConnections = 256

// bounded accepts no more connections at the same time than there are places, and closes those beyond.
type bounded struct {
	net.Listener
	places chan struct{}
}

// Accept implements net.Listener.
func (b bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case b.places <- struct{}{}:
			return &placed{Conn: conn, leave: sync.OnceFunc(func() { <-b.places })}, nil
		default:
			_ = conn.Close()
		}
	}
}

// placed is a connection that has a place until it is closed.
type placed struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (p *placed) Close() error {
	defer p.leave()
	return p.Conn.Close()
}

// CloseWrite has net/http close a connection so that its last answer arrives.
func (p *placed) CloseWrite() error {
	if half, ok := p.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
