package api

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"codex-proxy/runner"
	"codex-proxy/runner/api/wire"
)

// shell copies frames between the client and the session, until one of the two ends.
func (s *Server) shell(w http.ResponseWriter, r *http.Request, c caller) error {
	id, err := sessionID(r)
	if err != nil {
		return err
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), wire.ShellProtocol) {
		return &wire.Error{Code: wire.InvalidRequest, Message: "the request is no upgrade",
			Remedy: "send Connection: Upgrade and Upgrade: " + wire.ShellProtocol}
	}
	terminal := runner.Terminal{Type: cmp.Or(r.URL.Query().Get("term"), "xterm-256color")}
	var rowsErr, columnsErr error
	terminal.Rows, rowsErr = cells(r, "rows", 24)
	terminal.Columns, columnsErr = cells(r, "columns", 80)
	if err := errors.Join(rowsErr, columnsErr); err != nil {
		return err
	}
	session, from, err := s.Runner.Shell(r.Context(), c.viewer(), id, terminal)
	if err != nil {
		return err
	}
	defer session.Close()
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", wire.ShellProtocol)
	w.WriteHeader(http.StatusSwitchingProtocols)
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer client.Close()
	defer context.AfterFunc(s.done, func() { _ = client.Close() })()
	go func() {
		defer session.Close()
		_, _ = io.Copy(session, buffered)
	}()
	_, _ = io.Copy(client, from) // an end of either side is the end of the shell
	return nil
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
