package api

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
)

// dialed is a connection that tests read answers from.
type dialed struct {
	net.Conn
	from *bufio.Reader
}

func (r *rig) dial(t *testing.T) *dialed {
	t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(bound)))
	return &dialed{conn, bufio.NewReader(conn)}
}

func (d *dialed) ask(t *testing.T, text string) *http.Response {
	t.Helper()
	_, err := io.WriteString(d, text)
	require.NoError(t, err)
	res, err := http.ReadResponse(d.from, nil)
	require.NoError(t, err)
	return res
}

func (d *dialed) live(t *testing.T) {
	t.Helper()
	res := d.ask(t, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
	assert.Equal(t, http.StatusOK, res.StatusCode)
	_, err := io.Copy(io.Discard, res.Body)
	require.NoError(t, err)
}

// ended waits for the server to close the connection.
func (d *dialed) ended(t *testing.T) {
	t.Helper()
	_, err := io.Copy(io.Discard, d.from) // there may be a word of farewell
	var slow net.Error
	assert.False(t, errors.As(err, &slow) && slow.Timeout(), "still open")
}

// A body that is too large by its own account is refused before anything waits for it:
// for bytes, or for memory, of which there is none left here.
func TestGiantContentLength(t *testing.T) {
	t.Parallel()
	r := newRig(t, &appservertest.Server{Handler: thinker})
	defer fill(t, r.Memory).release()
	for _, path := range []string{"/v1/chat/completions", "/v1/responses"} {
		conn := r.dial(t)
		held := r.Memory.Bytes()
		res := conn.ask(t, "POST "+path+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000000000000000\r\n\r\n{")
		assert.Equal(t, http.StatusRequestEntityTooLarge, res.StatusCode, path)
		assert.True(t, res.Close)
		assert.Contains(t, text(t, res), "body_limit")
		conn.ended(t)
		assert.Equal(t, held, r.Memory.Bytes())
	}
	for _, line := range []string{"POST /v1/responses/resp_1/cancel", "DELETE /v1/responses/resp_1",
		"GET /v1/models", "POST /nowhere", "GET /livez"} {
		conn := r.dial(t)
		res := conn.ask(t, line+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000000000000\r\n\r\n{")
		assert.True(t, res.Close, line)
		text(t, res)
		conn.ended(t)
	}
}

func (r *rig) awaitConnections(t *testing.T, n int) {
	t.Helper()
	for {
		if all, _ := r.Connections.Count(); all == n {
			return
		}
		received(t, r.Connections.Changed())
	}
}

// A process that has no file descriptor left goes on accepting when it has.
func TestOutOfFiles(t *testing.T) {
	r := newRig(t, nil)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &exhausted{Listener: inner, left: 3}
	served := make(chan error, 1)
	go func() { served <- r.Serve(l) }()
	(&rig{addr: l.Addr().String()}).dial(t).live(t)
	require.NoError(t, inner.Close())
	assert.Error(t, received(t, served))
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
