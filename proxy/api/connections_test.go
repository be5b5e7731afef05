package api_test

import (
	"net"
	"net/http"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

// A body that is too large by its own account is refused before anything waits for it:
// for bytes, or for memory, of which there is none left here.
func TestGiantContentLength(t *testing.T) {
	t.Parallel()
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Thinker})
	defer apitest.Fill(t, r.Memory).Release()
	for _, path := range []string{"/v1/chat/completions", "/v1/responses"} {
		conn := r.Dial(t)
		held := r.Memory.Bytes()
		res := conn.Ask(t, "POST "+path+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000000000000000\r\n\r\n{")
		assert.Equal(t, http.StatusRequestEntityTooLarge, res.StatusCode, path)
		assert.True(t, res.Close)
		assert.Contains(t, apitest.Text(t, res), "body_limit")
		conn.Ended(t)
		assert.Equal(t, held, r.Memory.Bytes())
	}
	for _, line := range []string{"POST /v1/responses/resp_1/cancel", "DELETE /v1/responses/resp_1",
		"GET /v1/models", "POST /nowhere", "GET /livez"} {
		conn := r.Dial(t)
		res := conn.Ask(t, line+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000000000000\r\n\r\n{")
		assert.True(t, res.Close, line)
		apitest.Text(t, res)
		conn.Ended(t)
	}
}

// A process that has no file descriptor left goes on accepting when it has.
func TestOutOfFiles(t *testing.T) {
	r := apitest.NewRig(t, nil)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &exhausted{Listener: inner, left: 3}
	served := make(chan error, 1)
	go func() { served <- r.Serve(l) }()
	(&apitest.Rig{Addr: l.Addr().String()}).Dial(t).Live(t)
	require.NoError(t, inner.Close())
	assert.Error(t, apitest.Received(t, served))
	assert.Zero(t, l.left)
}

type exhausted struct {
	net.Listener

	left int
}

func (l *exhausted) Accept() (net.Conn, error) {
	if l.left > 0 {
		l.left--
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}
