package proxy

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/appserver/appservertest"
)

// A server that leaves turns no client away: not who is being answered, not who
// has a connection, and not who comes: that one waits for whoever shares the
// listening socket.
func TestLeave(t *testing.T) {
	gate := make(chan struct{})
	r := newRig(t, &appservertest.Server{Handler: gated(gate, "first", "last")})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	file, err := l.(*net.TCPListener).File()
	require.NoError(t, err)
	shared, err := net.FileListener(file)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	defer shared.Close()
	served := make(chan error, 1)
	go func() { served <- r.Serve(l) }()

	inflight := r.chatting(t, hello(streaming))
	body := bufio.NewReader(inflight.Body)
	frame(t, body)
	idle := r.do(t, http.MethodGet, "/livez", "")
	text(t, idle)
	assert.False(t, idle.Close)

	r.Leave(t.Context())
	require.NoError(t, received(t, served), "leaving is not a failure")
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	taken, err := shared.Accept()
	require.NoError(t, err)
	defer taken.Close()

	kept := r.do(t, http.MethodGet, "/livez", "")
	text(t, kept)
	assert.Equal(t, http.StatusOK, kept.StatusCode)
	assert.True(t, kept.Close, "the client must be told to use another connection")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, r.AwaitQuiet(ctx, nil), context.Canceled, "a stream is in flight")
	close(gate)
	got := frames(t, unread(inflight, body))
	assert.Equal(t, "[DONE]", got[len(got)-1])
	hurry := make(chan struct{})
	close(hurry)
	assert.NoError(t, r.AwaitQuiet(t.Context(), hurry))
}
