package api

import (
	"encoding/json"
	"fmt"
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

	most int // 0 is no bound

	mu    sync.Mutex
	users map[uint32]int
}

// refusalBound bounds the time in which a client takes the refusal of its connection.
const refusalBound = 100 * time.Millisecond

// Accept returns the next connection of a user who may have one more. Others get an answer and are closed.
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
		user, ok := peer(socket)
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

// refuse answers whatever the client is about to ask. A socket takes so little at once.
func (c *connections) refuse(socket *net.UnixConn) {
	defer func() { _ = socket.Close() }()
	text, err := json.Marshal(wire.Failure{Error: &wire.Error{
		Code: wire.TooMany, Message: fmt.Sprintf("you have %d connections already", c.most),
		Remedy: "close some, or have root raise max_connections of [user] in runner.toml",
	}})
	if err != nil || socket.SetWriteDeadline(time.Now().Add(refusalBound)) != nil {
		return
	}
	const head = "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"
	status := wire.TooMany.Status()
	_, _ = fmt.Fprintf(socket, head, status, http.StatusText(status), len(text), text)
}

// connection is one that counts until it is closed.
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
