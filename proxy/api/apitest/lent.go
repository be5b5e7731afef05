package apitest

import (
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// Unread asks for a path and reads nothing.
func (r *Rig) Unread(t testing.TB, path string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", r.Addr)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(64<<10))
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path)
	require.NoError(t, err)
	return conn
}
