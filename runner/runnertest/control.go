package runnertest

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"

	"codex-proxy/runner/exec"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
)

// control is the control socket of a unit.
type control struct {
	unit     *Unit
	listener net.Listener
	released chan struct{} // closed when a request ends the hold
	release  func()

	mu      sync.Mutex
	now     exec.Reply
	changed chan struct{} // closed at the next change of now
	conns   map[net.Conn]bool
}

// listen serves the control socket until close.
func listen(u *Unit) (*control, error) {
	dir := filepath.Join(u.systemd.runtimeDir, paths.ControlDir(u.Session))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, paths.ControlSocket)
	listener, err := net.Listen("unix", path)
	if err == nil {
		err = os.Chmod(path, 0o600) // root gives a socket to the daemon when that can be connected to
	}
	if err != nil {
		return nil, err
	}
	c := &control{
		unit: u, listener: listener, released: make(chan struct{}), changed: make(chan struct{}), conns: map[net.Conn]bool{},
		now: exec.Reply{Version: session.Version, Phase: exec.Preparing},
	}
	c.release = sync.OnceFunc(func() { close(c.released) })
	go c.accept()
	return c, nil
}

func (c *control) accept() {
	for {
		conn, err := c.listener.Accept()
		if err != nil {
			return
		}
		c.mu.Lock()
		open := c.conns != nil
		if open {
			c.conns[conn] = true
		}
		c.mu.Unlock()
		if !open {
			_ = conn.Close()
			return
		}
		go c.talk(conn)
	}
}

// close ends all connections, as the end of the process does.
func (c *control) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.listener.Close()
	for conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
	c.wake()
}

// wake has followers look again. mu is held.
func (c *control) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *control) talk(conn net.Conn) {
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		var request exec.Request
		if json.Unmarshal(lines.Bytes(), &request) != nil {
			return
		}
		switch request.Do {
		case exec.Cancel:
			c.unit.Cancels <- request.By
			c.release()
		case exec.Release:
			c.release()
		case exec.Provide:
			c.unit.Provided <- request
		case exec.Follow:
			c.follow(conn)
			return
		case exec.Port, exec.Attach:
			c.echo(conn)
			return
		}
		reply, _ := c.observe()
		_ = json.NewEncoder(conn).Encode(reply)
	}
}

// echo is a stream that returns what it gets.
func (c *control) echo(conn net.Conn) {
	reply, _ := c.observe()
	if json.NewEncoder(conn).Encode(reply) == nil {
		_, _ = io.Copy(conn, conn)
	}
}

func (c *control) follow(conn net.Conn) {
	for {
		reply, changed := c.observe()
		if json.NewEncoder(conn).Encode(reply) != nil || reply.Phase == exec.Ended {
			return
		}
		<-changed
	}
}

func (c *control) observe() (exec.Reply, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, c.changed
}

// Enter begins a phase of the main process. With Ended, the result has been written.
func (u *Unit) Enter(reply exec.Reply) {
	u.control.mu.Lock()
	defer u.control.mu.Unlock()
	reply.Version = session.Version
	u.control.now = reply
	u.control.wake()
}
