package api

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"

	"codex-proxy/runner/api/wire"
)

// upgrade opens a stream to a session, and copies the bytes of the client and of the session until one of the two ends.
func (s *session) upgrade(w http.ResponseWriter, r *http.Request, protocol string,
	open func() (net.Conn, io.Reader, error)) error {
	if !strings.EqualFold(r.Header.Get("Upgrade"), protocol) {
		return &wire.Error{Code: wire.InvalidRequest, Message: "the request is no upgrade",
			Remedy: "send Connection: Upgrade and Upgrade: " + protocol}
	}
	conn, from, err := open()
	if err != nil {
		return err
	}
	defer conn.Close()
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", protocol)
	w.WriteHeader(http.StatusSwitchingProtocols)
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer client.Close()
	defer context.AfterFunc(s.done, func() { _ = client.Close() })()
	go func() {
		defer conn.Close()
		_, _ = io.Copy(conn, buffered)
	}()
	_, _ = io.Copy(client, from) // an end of either side is the end of the stream
	return nil
}
