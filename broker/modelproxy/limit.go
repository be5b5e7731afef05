package modelproxy

import (
	"net"
	"sync"

	"codex-proxy/internal/direct"
)

// workerLimit bounds the connections of a worker's codex: each turn has one. More wait in the socket.
const workerLimit = 1024

// boundListener is a listener with a bound. Accept waits while as many connections are open.
type boundListener struct {
	net.Listener
	slots  chan struct{} // a value for each open connection
	closed chan struct{}
	close  func()
}

func bounded(l net.Listener, most int) *boundListener {
	closed := make(chan struct{})
	return &boundListener{Listener: l, slots: make(chan struct{}, most), closed: closed, close: sync.OnceFunc(func() { close(closed) })}
}

// Accept implements net.Listener.
func (l *boundListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &boundConn{Conn: direct.Conn(conn), release: sync.OnceFunc(func() { <-l.slots })}, nil
}

// Close implements net.Listener.
func (l *boundListener) Close() error {
	l.close()
	return l.Listener.Close()
}

type boundConn struct {
	net.Conn
	release func()
}

// Close implements net.Conn.
func (c *boundConn) Close() error {
	c.release()
	return c.Conn.Close()
}
