package apitest

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Tick is for states that nothing announces.
func Tick(t testing.TB) <-chan struct{} {
	t.Helper()
	ticks, ticker := make(chan struct{}), time.NewTicker(time.Millisecond)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ticker.C:
				select {
				case ticks <- struct{}{}:
				case <-t.Context().Done():
					return
				}
			case <-t.Context().Done():
				return
			}
		}
	}()
	t.Cleanup(func() { ticker.Stop(); <-done })
	return ticks
}

// Raw sends a chat request over a connection of the test's own.
func (r *Rig) Raw(t testing.TB, body, header string) net.Conn {
	t.Helper()
	return r.Sent(t, "/v1/chat/completions", body, header)
}

// Sent is raw for any path.
func (r *Rig) Sent(t testing.TB, path, body, header string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", r.Addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(Bound)))
	header = "Host: localhost\r\nContent-Type: application/json\r\n" + header
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s", path, header, len(body), body)
	require.NoError(t, err)
	return conn
}
