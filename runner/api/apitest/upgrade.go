package apitest

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/ports"
)

// upgrade takes the connection of a request over, if a command of its session runs. Otherwise it answers, and returns
// nil.
func (d *Daemon) upgrade(w http.ResponseWriter, r *http.Request) (net.Conn, *bufio.Reader) {
	running := false
	d.with(w, r, func(s *session) {
		for _, c := range s.commands {
			running = running || c.state.State == wire.CommandRunning || c.state.State == wire.CommandHeld
		}
		if !running {
			refuse(w, wire.Conflict, "no command of the session runs", "run it with --hold-on-failure")
		}
	})
	if !running {
		return nil, nil
	}
	conn, stream, err := http.NewResponseController(w).Hijack()
	if err != nil {
		d.t.Error(err)
		return nil, nil
	}
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n",
		r.Header.Get("Upgrade"))
	return conn, stream.Reader
}

// terminal connects to the terminal of a command that runs.
func (d *Daemon) terminal(w http.ResponseWriter, r *http.Request) {
	var c *Command
	d.with(w, r, func(s *session) {
		n, _ := strconv.Atoi(r.PathValue("n"))
		if one := s.commands[n-1]; one.state.State == wire.CommandRunning && one.Asked.TTY != nil {
			c = one
			return
		}
		refuse(w, wire.Conflict, "the command has no terminal, or does not run", "run it with tty")
	})
	if c == nil {
		return
	}
	conn, from := d.upgrade(w, r)
	if conn == nil {
		return
	}
	defer conn.Close()
	c.typed <- r.FormValue("rows") + "x" + r.FormValue("columns")
	for {
		kind, payload, err := wire.ReadShellFrame(from)
		if err != nil {
			return
		}
		if kind == wire.ShellSize {
			payload = fmt.Appendf(nil, "%dx%d", binary.BigEndian.Uint16(payload), binary.BigEndian.Uint16(payload[2:]))
		}
		c.typed <- string(payload)
	}
}

// port connects to the port of this host.
func (d *Daemon) port(w http.ResponseWriter, r *http.Request) {
	server, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", r.PathValue("port")))
	if err != nil {
		d.with(w, r, func(*session) { refuse(w, wire.Conflict, "no program listens", "start one") })
		return
	}
	defer server.Close()
	conn, from := d.upgrade(w, r)
	if conn == nil {
		return
	}
	var relays ports.Relays
	_ = relays.Relay(server.(*net.TCPConn), wire.NewPortStream(conn, from)) //nolint:forcetypeassert // of TCP
}
