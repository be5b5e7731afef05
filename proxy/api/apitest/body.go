package apitest

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"codex-proxy/probes"
	"codex-proxy/proxy/api"
	"codex-proxy/workers"
	"codex-proxy/workers/dispatch"
)

// Exchange sends raw bytes, ends its side, and reads the answer.
func (r *Rig) Exchange(t testing.TB, request []byte) (status int, answer string) {
	t.Helper()
	conn, err := net.Dial("tcp", r.Addr)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(Bound)))
	_, err = conn.Write(request)
	require.NoError(t, err)
	if !complete(request) { // a whole request of a client that half closes would be one of a client gone
		require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err, "%q", request)
	defer resp.Body.Close()
	return resp.StatusCode, Text(t, resp)
}

func complete(request []byte) bool {
	parsed, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(request)))
	if err != nil {
		return false
	}
	_, err = io.ReadAll(parsed.Body)
	return err == nil
}

// pipes is a listener of in-memory connections, for a bubble of fake time.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error { close(p); return nil }

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// Piped is a client of a server without workers, whose idle timeout is an hour.
func Piped(t testing.TB, changes ...func(*api.Settings)) (client net.Conn, leave func()) {
	t.Helper()
	_, client, leave = PipedAPI(t, changes...)
	return client, leave
}

// PipedAPI is Piped, and the server itself.
func PipedAPI(t testing.TB, changes ...func(*api.Settings)) (s *api.API, client net.Conn, leave func()) {
	t.Helper()
	pool := workers.NewPool(nil, dispatch.Queue{Limit: 1, Timeout: Bound, ReadyTimeout: Bound}, func() {})
	settings := api.Settings{
		Pool: pool, Report: func() probes.Report { return probes.Report{} }, BodyLimit: 1000, RequestMemory: 8000,
		QueueTimeout: Bound, IdleTimeout: time.Hour, Keepalive: time.Hour,
		Registry: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	}
	for _, change := range changes {
		change(&settings)
	}
	s = api.New(settings)
	listener, served := make(pipes), make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	client, server := net.Pipe()
	listener <- server
	return s, client, func() {
		require.NoError(t, s.Shutdown(context.Background()))
		require.NoError(t, <-served)
	}
}
