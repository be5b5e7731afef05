package connections

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"codex-proxy/proxy/openai"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSocketsAreBounded(t *testing.T) {
	c := New(nil)
	closed, err := c.OpenSocket("ann")
	require.NoError(t, err)
	for range maxKeySockets - 1 {
		_, err := c.OpenSocket("ann")
		require.NoError(t, err)
	}
	var known *openai.Error
	_, err = c.OpenSocket("ann")
	require.ErrorAs(t, err, &known)
	assert.Equal(t, http.StatusTooManyRequests, known.Status)
	assert.Contains(t, known.Message, "128 WebSockets")
	closed()
	_, err = c.OpenSocket("ann")
	require.NoError(t, err, "one has closed")

	for range maxSockets - maxKeySockets { // requests without a key have no share
		_, err := c.OpenSocket("")
		require.NoError(t, err)
	}
	_, err = c.OpenSocket("bob")
	require.ErrorAs(t, err, &known)
	assert.Equal(t, http.StatusServiceUnavailable, known.Status)
}

// Connections without a request make room for others, the oldest first; a connection with
// a request is not closed for a newcomer.
func TestConnectionsAreBounded(t *testing.T) {
	warned, gate := make(chan int, 10), make(chan struct{})
	c := New(func(limit int) { warned <- limit })
	c.limit = 3
	url := serve(t, c, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/busy" {
			<-gate
		}
	})
	busy := dial(t, url)
	busy.begin(t, "/busy")
	await(t, c, func() bool { return c.Unanswered() == 1 })
	silent, idle := dial(t, url), dial(t, url)
	await(t, c, func() bool { all, _ := c.Count(); return all == 3 })
	ask := func(conn *client, others int) {
		conn.ask(t)
		await(t, c, func() bool { // a client has its answer before its connection is idle
			_, busy := c.Count()
			return busy == others
		})
	}
	ask(idle, 2)
	ask(dial(t, url), 1)
	silent.ended(t)
	ask(idle, 1)
	for range 2 {
		ask(dial(t, url), 1)
	}
	idle.ended(t)
	close(gate)
	busy.answer(t)
	assert.Equal(t, 3, <-warned)
	assert.Empty(t, warned, "once a minute")
}

// A connection is at rest when it has been without a request for the linger.
func TestRest(t *testing.T) {
	c := New(nil)
	at := time.Now()
	c.conns[nil] = connection{http.StateActive, at}
	_, busy := c.unrested(at)
	assert.True(t, busy)
	c.conns[nil] = connection{http.StateIdle, at}
	left, busy := c.unrested(at)
	assert.False(t, busy)
	assert.Equal(t, linger, left)
	left, _ = c.unrested(at.Add(linger))
	assert.Zero(t, left)
}

func serve(t *testing.T, c *Connections, handle http.HandlerFunc) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{Handler: handle, ConnState: c.Track}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
	return l.Addr().String()
}

// await waits until ok, which is called again after each change.
func await(t *testing.T, c *Connections, ok func() bool) {
	t.Helper()
	limit := time.After(time.Minute)
	for !ok() {
		select {
		case <-c.Changed():
		case <-limit:
			require.FailNow(t, "waited in vain")
		}
	}
}

// client is the connection of a client.
type client struct {
	net.Conn
	from *bufio.Reader
}

func dial(t *testing.T, addr string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	return &client{conn, bufio.NewReader(conn)}
}

func (c *client) begin(t *testing.T, path string) {
	t.Helper()
	_, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
	require.NoError(t, err)
}

func (c *client) answer(t *testing.T) {
	t.Helper()
	resp, err := http.ReadResponse(c.from, nil)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
}

func (c *client) ask(t *testing.T) {
	t.Helper()
	c.begin(t, "/")
	c.answer(t)
}

// ended waits for the server to close the connection.
func (c *client) ended(t *testing.T) {
	t.Helper()
	_, err := io.Copy(io.Discard, c.from)
	var slow net.Error
	assert.False(t, errors.As(err, &slow) && slow.Timeout(), "still open")
}
