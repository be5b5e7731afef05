package exec

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"time"

	"codex-proxy/runner/session"
)

// maxRequest bounds a request on the control socket, in bytes.
const maxRequest = 64 << 10

// Request is a line of JSON from the daemon.
type Request struct {
	Version int    `json:"version"`      // session.Version
	Do      string `json:"do"`           // Cancel or Status
	By      string `json:"by,omitempty"` // of Cancel: the user that cancels
}

// What a Request can ask for.
const (
	Cancel = "cancel" // end the command
	Status = "status" // nothing but the Reply
)

// Reply is the line of JSON that answers a Request.
type Reply struct {
	Version int    `json:"version"`
	Error   string `json:"error,omitempty"`
	// PID is that of the command in its PID namespace, and 0 before its start; Started is the time of that.
	PID     int           `json:"pid,omitempty"`
	Started time.Time     `json:"started,omitzero"`
	Bytes   int64         `json:"bytes"`           // of output
	Cause   session.Cause `json:"cause,omitempty"` // if the command is being ended
}

// control serves the control socket: any number of connections, with any number of requests each. Nobody but the
// daemon can connect (see package prepare).
type control struct {
	listener net.Listener
	run      *run
	done     sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // nil after close
}

// serve begins to accept connections. close ends that.
func serve(listener net.Listener, run *run) *control {
	c := &control{listener: listener, run: run, conns: map[net.Conn]bool{}}
	c.done.Go(c.accept)
	return c
}

func (c *control) accept() {
	for {
		conn, err := c.listener.Accept()
		if err != nil {
			return
		}
		if !c.add(conn) {
			_ = conn.Close()
			return
		}
		c.done.Go(func() {
			c.talk(conn)
			c.remove(conn)
		})
	}
}

func (c *control) add(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conns == nil {
		return false
	}
	c.conns[conn] = true
	return true
}

func (c *control) remove(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, conn)
	_ = conn.Close()
}

// close ends all connections and waits for that.
func (c *control) close() {
	c.mu.Lock()
	_ = c.listener.Close()
	for conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
	c.mu.Unlock()
	c.done.Wait()
}

// talk answers the requests of a connection until its end or its first mistake.
func (c *control) talk(conn net.Conn) {
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, maxRequest)
	for encoder := json.NewEncoder(conn); lines.Scan(); {
		reply := c.run.answer(lines.Bytes())
		if encoder.Encode(reply) != nil || reply.Error != "" {
			return
		}
	}
}

// answer does what a request asks for.
func (r *run) answer(line []byte) Reply {
	var request Request
	err := json.Unmarshal(line, &request)
	switch {
	case err != nil:
		err = fmt.Errorf("the request is no JSON object: %w", err)
	case request.Version != session.Version:
		err = fmt.Errorf("the request has the version %d, this session knows %d: restart codex-runner.service after its "+
			"sessions have ended", request.Version, session.Version)
	case request.Do == Cancel:
		r.end(session.Cancelled, request.By)
	case request.Do != Status:
		err = fmt.Errorf("%.40q is unknown: use %s or %s", request.Do, Cancel, Status)
	}
	if err != nil {
		return Reply{Version: session.Version, Error: err.Error()}
	}
	return r.status()
}

func (r *run) status() Reply {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Reply{Version: session.Version, PID: r.pid, Started: r.started, Bytes: r.log.Bytes(), Cause: r.cause}
}
