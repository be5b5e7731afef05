package api

import (
	"cmp"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/control"
)

// shell copies frames between the client and the session, until one of the two ends.
func (s *session) shell(w http.ResponseWriter, r *http.Request) error {
	return s.upgrade(w, r, wire.ShellProtocol, func() (net.Conn, io.Reader, error) {
		terminal, err := sizeOf(r)
		if err != nil {
			return nil, nil, err
		}
		terminal.Type = cmp.Or(r.URL.Query().Get("term"), "xterm-256color")
		return s.Runner.Shell(r.Context(), s.viewer(), s.id, terminal)
	})
}

// terminal copies the frames of the client to the terminal of a command, until the command or the client ends that.
func (s *session) terminal(w http.ResponseWriter, r *http.Request) error {
	n, err := commandOf(r)
	if err != nil {
		return err
	}
	return s.upgrade(w, r, wire.ShellProtocol, func() (net.Conn, io.Reader, error) {
		terminal, err := sizeOf(r)
		if err != nil {
			return nil, nil, err
		}
		ctx, cancel := s.unlessStopping(r)
		defer cancel()
		return s.Runner.Terminal(ctx, s.viewer(), s.id, n, terminal)
	})
}

// sizeOf returns the parameters of a terminal's size.
func sizeOf(r *http.Request) (control.Terminal, error) {
	rows, rowsErr := cells(r, "rows", 24)
	columns, columnsErr := cells(r, "columns", 80)
	return control.Terminal{Rows: rows, Columns: columns}, errors.Join(rowsErr, columnsErr)
}

// cells returns the parameter of a terminal's size.
func cells(r *http.Request, name string, otherwise uint16) (uint16, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, invalid(name, "use 1 to 65535")
	}
	return uint16(n), nil
}

// port connects the client to a port of the session.
func (s *session) port(w http.ResponseWriter, r *http.Request) error {
	port, err := strconv.ParseUint(r.PathValue("port"), 10, 16)
	if err != nil || port == 0 {
		return invalid("port", "use 1 to 65535")
	}
	return s.upgrade(w, r, wire.PortProtocol, func() (net.Conn, io.Reader, error) {
		return s.Runner.Port(r.Context(), s.viewer(), s.id, uint16(port))
	})
}
