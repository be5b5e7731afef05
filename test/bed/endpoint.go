package bed

import (
	"errors"
	"net"
	"sync"
)

// Endpoint is a listener that can close with all its connections, and open again.
type Endpoint struct {
	Listen func() (net.Listener, error)
	addr   net.Addr

	Mu     sync.Mutex
	Now    net.Listener // nil while it is closed
	Conns  map[net.Conn]bool
	Back   chan struct{} // closed when it opens again
	closed bool
}

// newEndpoint listens.
func newEndpoint(listen func() (net.Listener, error)) (*Endpoint, error) {
	l, err := listen()
	if err != nil {
		return nil, err
	}
	return &Endpoint{Listen: listen, addr: l.Addr(), Now: l, Conns: map[net.Conn]bool{}, Back: make(chan struct{})}, nil
}

func (e *Endpoint) state() (l net.Listener, back <-chan struct{}, closed bool) {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	return e.Now, e.Back, e.closed
}

// Accept implements net.Listener, and waits while the endpoint is closed.
func (e *Endpoint) Accept() (net.Conn, error) {
	for {
		l, back, closed := e.state()
		if closed {
			return nil, net.ErrClosed
		}
		if l == nil {
			<-back
			continue
		}
		conn, err := l.Accept()
		if err == nil {
			return e.keep(conn), nil
		}
		if !errors.Is(err, net.ErrClosed) {
			return nil, err
		}
	}
}

func (e *Endpoint) keep(conn net.Conn) net.Conn {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	kept := &endpointConn{Conn: conn, endpoint: e}
	e.Conns[kept] = true
	return kept
}

// Close implements net.Listener.
func (e *Endpoint) Close() error {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	close(e.Back)
	e.Back = make(chan struct{})
	if e.Now == nil {
		return nil
	}
	return e.Now.Close()
}

// Addr implements net.Listener.
func (e *Endpoint) Addr() net.Addr { return e.addr }

// endpointConn leaves the endpoint's list when it is closed.
type endpointConn struct {
	net.Conn
	endpoint *Endpoint
}

// Close implements net.Conn.
func (c *endpointConn) Close() error {
	c.endpoint.Mu.Lock()
	delete(c.endpoint.Conns, c)
	c.endpoint.Mu.Unlock()
	return c.Conn.Close()
}
