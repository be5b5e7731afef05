package exec

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"codex-proxy/runner/session"
)

// MaxReply bounds a Reply, in bytes: Need has the manifests of an environment.
const MaxReply = 16 << 20

// maxRequest bounds a request on the control socket, in bytes.
const maxRequest = 64 << 10

// writeBound bounds the time in which the daemon takes a reply.
const writeBound = time.Second

// acceptPause is the pause after a connection that could not be accepted.
const acceptPause = 100 * time.Millisecond

// Request is a line of JSON from the daemon.
type Request struct {
	Version int    `json:"version"`       // session.Version
	Do      string `json:"do"`            // one of the constants
	By      string `json:"by,omitempty"`  // of Cancel: the user that cancels
	Key     string `json:"key,omitempty"` // of Provide: of the environment
	// Fault is of Provide: why there is no environment; "" if it is there.
	Fault string `json:"fault,omitempty"`
	// Of Shell and Attach: the size and the type ($TERM) of the terminal.
	Rows    uint16 `json:"rows,omitempty"`
	Columns uint16 `json:"columns,omitempty"`
	Term    string `json:"term,omitempty"`
	Port    uint16 `json:"port,omitempty"` // of Port
}

// The values of Request.Do.
const (
	Cancel  = "cancel"  // end the command
	Status  = "status"  // nothing but the Reply
	Follow  = "follow"  // a Reply now, and one after each change of Phase; with Ended the connection ends
	Provide = "provide" // go on: the environment is there, or will not be
	Release = "release" // end the hold
	Shell   = "shell"   // a shell next to the command: frames of package wire follow the Reply in both directions
	Attach  = "attach"  // the terminal of the command: frames of a client of a shell follow the Reply
	Port    = "port"    // a connection to a port of the session: a wire.PortStream follows the Reply
)

// Phase is the current work of the main process.
type Phase string

// The phases.
const (
	Preparing Phase = "preparing"
	Awaiting  Phase = "awaiting" // waits until Need is provided
	Running   Phase = "running"
	Finishing Phase = "finishing" // the command has ended: the hook after it, and its artifacts
	Held      Phase = "held"      // the Result is written; waits for Release
	Ended     Phase = "ended"     // the Result is written
)

// Reply is the line of JSON that answers a Request.
type Reply struct {
	Version int    `json:"version"`
	Error   string `json:"error,omitempty"`
	Phase   Phase  `json:"phase,omitempty"`
	Need    *Need  `json:"need,omitempty"` // of Awaiting
	// PID is the command's ID in its PID namespace, and 0 before its start at the time Started.
	PID     int           `json:"pid,omitempty"`
	Started time.Time     `json:"started,omitzero"`
	Bytes   int64         `json:"bytes"`           // of output
	Cause   session.Cause `json:"cause,omitempty"` // if the command is being ended
}

// control serves the control socket: any number of connections, with any number of requests each. Only the daemon can
// connect (see package prepare).
type control struct {
	listener  net.Listener
	run       *run
	closing   chan struct{}
	answering sync.WaitGroup // replies that are still to be sent, the last phase among them
	done      sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // nil after close
}

// serve begins to accept connections. close ends that.
func serve(listener net.Listener, run *run) *control {
	c := &control{listener: listener, run: run, closing: make(chan struct{}), conns: map[net.Conn]bool{}}
	c.done.Go(c.accept)
	return c
}

func (c *control) accept() {
	for {
		conn, err := c.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no file is left, as a rule: the next connection may find one
			select {
			case <-c.closing:
				return
			case <-time.After(acceptPause):
			}
			continue
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

// close ends all connections and waits for that. Replies are sent before, and those that follow get the last phase.
func (c *control) close() {
	c.mu.Lock()
	close(c.closing)
	c.mu.Unlock()
	c.answering.Wait()
	c.run.ports.Close(portDrain)
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
	lines := bufio.NewReaderSize(conn, maxRequest)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil || !c.handle(conn, line, lines) {
			return
		}
	}
}

// handle answers a request, and reports whether the connection goes on.
func (c *control) handle(conn net.Conn, line []byte, input *bufio.Reader) bool {
	if !c.register() {
		return false
	}
	request, reply := c.answer(line)
	if serve := c.streams()[request.Do]; reply.Error == "" && serve != nil {
		c.answering.Done()
		if err := serve(request, conn, input); err != nil {
			_ = send(conn, Reply{Version: session.Version, Error: err.Error()})
		}
		return false
	}
	defer c.answering.Done()
	if reply.Error == "" && request.Do == Follow {
		c.follow(conn)
		return false
	}
	return send(conn, reply) == nil && reply.Error == ""
}

// streams are the requests that take the connection over. An error is about one that did not.
func (c *control) streams() map[string]func(request Request, conn net.Conn, input *bufio.Reader) error {
	return map[string]func(Request, net.Conn, *bufio.Reader) error{
		Shell: terminals{c.run}.shell, Attach: terminals{c.run}.attach, Port: c.run.port,
	}
}

func send(conn net.Conn, reply Reply) error {
	if err := conn.SetWriteDeadline(time.Now().Add(writeBound)); err != nil {
		return err
	}
	return json.NewEncoder(conn).Encode(reply)
}

// register has close wait for an answer, unless close has begun.
func (c *control) register() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.closing:
		return false
	default:
		c.answering.Add(1)
		return true
	}
}

// follow sends the status after each change, until the last.
func (c *control) follow(conn net.Conn) {
	for {
		reply, changed := c.run.observe()
		if send(conn, reply) != nil || reply.Phase == Ended {
			return
		}
		select {
		case <-changed:
		case <-c.closing:
			if reply, _ := c.run.observe(); reply.Phase == Ended {
				_ = send(conn, reply)
			}
			return
		}
	}
}

// answer executes a request, and leaves Follow and those of streams to the caller.
func (c *control) answer(line []byte) (Request, Reply) {
	var request Request
	err := json.Unmarshal(line, &request)
	if err != nil {
		err = fmt.Errorf("the request is no JSON object: %w", err)
	} else if request.Version != session.Version {
		err = fmt.Errorf("the request has the version %d, this session knows %d: restart codex-runner.service after its "+
			"sessions have ended", request.Version, session.Version)
	} else {
		err = c.do(request)
	}
	if err != nil {
		return request, Reply{Version: session.Version, Error: err.Error()}
	}
	reply, _ := c.run.observe()
	return request, reply
}

func (c *control) do(request Request) error {
	switch request.Do {
	case Cancel:
		c.run.end(session.Cancelled, request.By)
		c.run.release() // a command that has failed is not held then
	case Provide:
		return c.run.provision(request.Key, request.Fault)
	case Release:
		c.run.release()
	case Status, Follow, Shell, Attach, Port:
	default:
		return fmt.Errorf("%.40q is unknown: use %s, %s, %s, %s, %s, %s, %s or %s", request.Do, Cancel, Status, Follow,
			Provide, Release, Shell, Attach, Port)
	}
	return nil
}

// observe returns the status, and a channel that is closed when the phase changes.
func (r *run) observe() (Reply, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Reply{Version: session.Version, Phase: r.phase, Need: r.need, PID: r.pid, Started: r.started,
		Bytes: r.log.Bytes(), Cause: r.cause}, r.changed
}
