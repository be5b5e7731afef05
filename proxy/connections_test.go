package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/appserver/appservertest"
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
	r := newRig(t, &appservertest.Server{Handler: thinker})
	all := r.memory.hold("")
	for all.try(1 << 10) {
	}
	defer all.keep(0)
	for _, path := range []string{"/v1/chat/completions", "/v1/responses"} {
		conn := r.dial(t)
		held := r.memory.bytes.Load()
		res := conn.ask(t, "POST "+path+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000000000000000\r\n\r\n{")
		assert.Equal(t, http.StatusRequestEntityTooLarge, res.StatusCode, path)
		assert.True(t, res.Close)
		assert.Contains(t, text(t, res), "body_limit")
		conn.ended(t)
		assert.Equal(t, held, r.memory.bytes.Load())
	}
	for _, line := range []string{"POST /v1/responses/resp_1/cancel", "DELETE /v1/responses/resp_1", "GET /v1/models", "POST /nowhere", "GET /livez"} {
		conn := r.dial(t)
		res := conn.ask(t, line+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000000000000\r\n\r\n{")
		assert.True(t, res.Close, line)
		text(t, res)
		conn.ended(t)
	}
}

// Connections without a request make room for others, the oldest first; one with a
// request is not closed for a newcomer.
func TestConnectionsAreBounded(t *testing.T) {
	gate := make(chan struct{})
	r := newRig(t, &appservertest.Server{Handler: gated(gate, "first", "last")})
	r.exits.mu.Lock()
	r.exits.most = 3
	r.exits.mu.Unlock()
	body := hello(streaming)
	stream := r.dial(t)
	res := stream.ask(t, fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", post, len(body), body))
	assert.Equal(t, http.StatusOK, res.StatusCode)
	silent, idle := r.dial(t), r.dial(t)
	r.awaitConnections(t, 3)
	idle.live(t)
	r.dial(t).live(t)
	silent.ended(t)
	idle.live(t)
	for range 2 {
		r.dial(t).live(t)
	}
	idle.ended(t)
	close(gate)
	rest, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	assert.Contains(t, string(rest), "[DONE]", "one with a request stays")
	assert.Equal(t, 1, strings.Count(r.log.String(), "too many connections"))
}

func (r *rig) awaitConnections(t *testing.T, n int) {
	t.Helper()
	for {
		if all, _ := r.exits.count(); all == n {
			return
		}
		received(t, r.Changed())
	}
}

// A connection without a request, or with the beginning of one, is closed in time.
func TestIdleConnectionsEnd(t *testing.T) {
	r := newRig(t, nil)
	assert.Equal(t, idleConnTimeout, r.http.IdleTimeout)
	assert.Equal(t, readHeaderTimeout, r.http.ReadHeaderTimeout)
	settings := r.Settings
	settings.Registry = prometheus.NewRegistry()
	short := New(settings)
	short.http.IdleTimeout, short.http.ReadHeaderTimeout = time.Millisecond, time.Second
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- short.Serve(l) }()
	at := &rig{addr: l.Addr().String()}
	idle, begun, silent := at.dial(t), at.dial(t), at.dial(t)
	idle.live(t)
	_, err = io.WriteString(begun, "GET /livez HTTP/1.1\r\nHo")
	require.NoError(t, err)
	for _, conn := range []*dialed{idle, begun, silent} {
		conn.ended(t)
	}
	require.NoError(t, short.Shutdown(t.Context()))
	require.NoError(t, received(t, served))
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
