package proxy

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"codex-proxy/probes"
	"codex-proxy/proxy/connections"
	"codex-proxy/proxy/limits"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newServer is a server without endpoints.
func newServer() *Server {
	return New(Settings{
		Report: func() probes.Report { return probes.Report{} }, Limiter: limits.NewLimiter(limits.Settings{}),
		Memory: limits.NewMemory(1<<20, 0), Connections: connections.New(nil), WriteTimeout: time.Minute,
		Registry: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	})
}

func TestOperationsRoutes(t *testing.T) {
	got := map[string]Access{}
	for _, route := range newServer().routes {
		got[route.Method+" "+route.Path] = route.Access
	}
	assert.Equal(t, map[string]Access{
		"GET /livez": Public, "GET /readyz": Public, "GET /healthz": Public, "GET /health": Public, "GET /metrics": Operator,
	}, got)
}

// A connection without a request, or with the beginning of one, is closed in time.
func TestIdleConnectionsEnd(t *testing.T) {
	s := newServer()
	assert.Equal(t, idleConnTimeout, s.http.IdleTimeout)
	assert.Equal(t, readHeaderTimeout, s.http.ReadHeaderTimeout)
	s.http.IdleTimeout, s.http.ReadHeaderTimeout = time.Millisecond, time.Second
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	for _, sent := range []string{"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET /livez HTTP/1.1\r\nHo", ""} {
		conn, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
		_, err = io.WriteString(conn, sent)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, conn) // the server may send a last answer
		var slow net.Error
		assert.False(t, errors.As(err, &slow) && slow.Timeout(), "still open: %q", sent)
	}
	require.NoError(t, s.Shutdown(t.Context()))
	require.NoError(t, <-served)
}
