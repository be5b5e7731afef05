package integration

import (
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
)

// endpoint is a listener that can close with all its connections, and open again.
type endpoint struct {
	listen func() (net.Listener, error)
	addr   net.Addr

	mu     sync.Mutex
	now    net.Listener // nil while it is closed
	conns  map[net.Conn]bool
	back   chan struct{} // closed when it opens again
	closed bool
}

// newEndpoint listens.
func newEndpoint(listen func() (net.Listener, error)) (*endpoint, error) {
	l, err := listen()
	if err != nil {
		return nil, err
	}
	return &endpoint{listen: listen, addr: l.Addr(), now: l, conns: map[net.Conn]bool{}, back: make(chan struct{})}, nil
}

// down refuses new connections, and cuts the existing ones.
func (e *endpoint) down() {
	e.mu.Lock()
	_ = e.now.Close()
	e.now = nil
	conns := slices.Collect(maps.Keys(e.conns))
	e.mu.Unlock()
	for _, conn := range conns { // which take the lock
		_ = conn.Close()
	}
}

func (e *endpoint) up() (err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.now, err = e.listen(); err == nil {
		close(e.back)
		e.back = make(chan struct{})
	}
	return err
}

func (e *endpoint) state() (l net.Listener, back <-chan struct{}, closed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now, e.back, e.closed
}

// Accept implements net.Listener, and waits while the endpoint is closed.
func (e *endpoint) Accept() (net.Conn, error) {
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

func (e *endpoint) keep(conn net.Conn) net.Conn {
	e.mu.Lock()
	defer e.mu.Unlock()
	kept := &endpointConn{Conn: conn, endpoint: e}
	e.conns[kept] = true
	return kept
}

// Close implements net.Listener.
func (e *endpoint) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	close(e.back)
	e.back = make(chan struct{})
	if e.now == nil {
		return nil
	}
	return e.now.Close()
}

// Addr implements net.Listener.
func (e *endpoint) Addr() net.Addr { return e.addr }

// endpointConn leaves the endpoint's list when it is closed.
type endpointConn struct {
	net.Conn
	endpoint *endpoint
}

// Close implements net.Conn.
func (c *endpointConn) Close() error {
	c.endpoint.mu.Lock()
	delete(c.endpoint.conns, c)
	c.endpoint.mu.Unlock()
	return c.Conn.Close()
}
