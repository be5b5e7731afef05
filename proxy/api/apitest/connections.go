package apitest

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// dialed is a connection that tests read answers from.
type dialed struct {
	net.Conn
	from *bufio.Reader
}

// Dial opens a connection.
func (r *Rig) Dial(t testing.TB) *dialed {
	t.Helper()
	conn, err := net.Dial("tcp", r.Addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(Bound)))
	return &dialed{conn, bufio.NewReader(conn)}
}

// Ask sends a request, and reads the head of its answer.
func (d *dialed) Ask(t testing.TB, text string) *http.Response {
	t.Helper()
	_, err := io.WriteString(d, text)
	require.NoError(t, err)
	res, err := http.ReadResponse(d.from, nil)
	require.NoError(t, err)
	return res
}

// Live asks on the connection whether the server lives.
func (d *dialed) Live(t testing.TB) {
	t.Helper()
	res := d.Ask(t, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
	assert.Equal(t, http.StatusOK, res.StatusCode)
	_, err := io.Copy(io.Discard, res.Body)
	require.NoError(t, err)
}

// Ended waits for the server to close the connection.
func (d *dialed) Ended(t testing.TB) {
	t.Helper()
	_, err := io.Copy(io.Discard, d.from) // there may be a word of farewell
	var slow net.Error
	assert.False(t, errors.As(err, &slow) && slow.Timeout(), "still open")
}

// AwaitConnections waits until the server has n connections.
func (r *Rig) AwaitConnections(t testing.TB, n int) {
	t.Helper()
	for {
		if all, _ := r.Connections.Count(); all == n {
			return
		}
		Received(t, r.Connections.Changed())
	}
}
