package databasecli

import (
	"io"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// relayTo starts a relay. ended has its error when it ends.
func relayTo(t *testing.T, servers ...string) (connect func() net.Conn, ended chan error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	ended = make(chan error, 1)
	go func() { ended <- (&Relay{Servers: servers}).Run(l) }()
	return func() net.Conn {
		conn, err := net.Dial("unix", path)
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		return conn
	}, ended
}

// The relay takes the first address that answers, also one of IPv6, and ends without a connection.
func TestRelayCarriesAndEnds(t *testing.T) {
	server, err := net.Listen("tcp", "[::1]:0")
	if err != nil { // this machine has no IPv6
		server, err = net.Listen("tcp", "127.0.0.1:0")
	}
	require.NoError(t, err)
	defer server.Close()
	go func() {
		conn, err := server.Accept()
		if err == nil {
			_, _ = io.Copy(conn, conn)
			conn.Close()
		}
	}()
	connect, ended := relayTo(t, refusing(t), server.Addr().String())
	conn := connect()
	_, err = conn.Write([]byte("hello"))
	require.NoError(t, err)
	got := make([]byte, 5)
	_, err = io.ReadFull(conn, got)
	require.NoError(t, err)
	assert.Equal(t, "hello", string(got))
	assert.Empty(t, ended)
	require.NoError(t, conn.Close())
	assert.NoError(t, <-ended)
}

// The name may lead to another server by now: one connection that cannot be made ends the relay, with the others.
func TestRelayEndsWithoutAServer(t *testing.T) {
	connect, ended := relayTo(t, refusing(t))
	conn := connect()
	assert.NoError(t, <-ended)
	_, err := conn.Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF)
}

// refusing is the address of a server that is gone.
func refusing(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}
