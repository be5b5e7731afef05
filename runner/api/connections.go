package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"codex-proxy/runner/api/wire"
)

// connections bounds the connections of each user, as each takes a descriptor of the daemon. Root has no bound.
type connections struct {
	net.Listener

	most     int // 0 is no bound
	peer     func(*net.UnixConn) (user uint32, ok bool)
	refusals chan struct{} // those that go on

	mu    sync.Mutex
	users map[uint32]int
}

const (
	// refusalBound bounds the time in which a client sends its request and takes the refusal.
	refusalBound = 5 * time.Second
	// mostRefusals bounds the connections that are refused at the same time, each of which has a descriptor. Others get
	// the refusal at once.
	mostRefusals = 16
)

// limited bounds the connections that a listener accepts.
func limited(l net.Listener, most int) *connections {
	return &connections{Listener: l, most: most, peer: peer, refusals: make(chan struct{}, mostRefusals),
		users: map[uint32]int{}}
}

// Accept returns the next connection of a user that may have one more. It answers and closes other connections.
func (c *connections) Accept() (net.Conn, error) {
	for {
		accepted, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		socket, ok := accepted.(*net.UnixConn)
		if !ok || c.most == 0 {
			return accepted, nil
		}
		user, ok := c.peer(socket)
		if !ok || user == 0 {
			return accepted, nil
		}
		if c.take(user) {
			return &connection{UnixConn: socket, release: sync.OnceFunc(func() { c.giveBack(user) })}, nil
		}
		c.refuse(socket)
	}
}

func (c *connections) take(user uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users[user] >= c.most {
		return false
	}
	c.users[user]++
	return true
}

func (c *connections) giveBack(user uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users[user]--; c.users[user] == 0 {
		delete(c.users, user)
	}
}

// refuse answers a client and closes its connection. A client of net/http takes an answer before its request for a
// fault, and one that cannot write the rest of its request sees no answer.
func (c *connections) refuse(socket *net.UnixConn) {
	_ = socket.SetDeadline(time.Now().Add(refusalBound))
	select {
	case c.refusals <- struct{}{}:
	default:
		c.answer(socket) // a socket takes so little at once
		_ = socket.Close()
		return
	}
	go func() {
		defer func() { <-c.refusals }()
		defer func() { _ = socket.Close() }()
		if _, err := socket.Read(make([]byte, 1)); err != nil {
			return
		}
		c.answer(socket)
		_ = socket.CloseWrite()
		_, _ = io.Copy(io.Discard, socket)
	}()
}

// answer refuses the request of the client, whatever it is.
func (c *connections) answer(socket *net.UnixConn) {
	text, err := json.Marshal(wire.Failure{Error: &wire.Error{
		Code: wire.TooMany, Message: fmt.Sprintf("you have %d connections already", c.most),
		Remedy: "close some, or have root raise max_connections of [user] in runner.toml",
	}})
	if err != nil {
		return
	}
	const head = "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"
	status := wire.TooMany.Status()
	_, _ = fmt.Fprintf(socket, head, status, http.StatusText(status), len(text), text)
}

// connection counts for its user until it is closed.
type connection struct {
	*net.UnixConn

	release func()
}

// Close closes the connection.
func (c *connection) Close() error {
	defer c.release()
	return c.UnixConn.Close()
}

// peer is the user at the other end of a connection, SO_PEERCRED of unix(7).
func peer(socket *net.UnixConn) (user uint32, ok bool) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, false
	}
	var credentials *unix.Ucred
	if raw.Control(func(fd uintptr) {
		credentials, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}) != nil || err != nil {
		return 0, false
	}
	return credentials.Uid, true
}
