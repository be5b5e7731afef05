package api

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRefusedConnection has a client of net/http connect that has too many connections already. It gets the answer, also if
// it has a body to send, however its request and the refusal meet.
func TestRefusedConnection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	bounded := limited(l, 1)
	bounded.peer = func(*net.UnixConn) (uint32, bool) { return 1000, true }
	server := http.Server{Handler: http.NotFoundHandler()} //nolint:gosec // it has one client, this test
	done := make(chan struct{})
	go func() {
		defer close(done)
		assert.ErrorIs(t, server.Serve(bounded), http.ErrServerClosed)
	}()
	defer func() {
		assert.NoError(t, server.Close())
		<-done
	}()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	first, err := dial(t.Context(), "", "")
	require.NoError(t, err)
	defer first.Close()
	client := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	for range 2000 {
		for _, body := range []string{"", strings.Repeat("x", 8<<10)} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://codex-runner/", strings.NewReader(body))
			require.NoError(t, err)
			answer, err := client.Do(request)
			require.NoError(t, err)
			text, err := io.ReadAll(answer.Body)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			require.Equal(t, http.StatusTooManyRequests, answer.StatusCode)
			require.Contains(t, string(text), "you have 1 connections already")
		}
	}
}
