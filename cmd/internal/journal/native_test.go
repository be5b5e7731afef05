package journal

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/journal"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNative(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	n := &native{path: path}
	read := func() string {
		b := make([]byte, 4096)
		require.NoError(t, l.SetReadDeadline(time.Now().Add(10*time.Second)))
		size, err := l.Read(b)
		require.NoError(t, err)
		return string(b[:size])
	}
	require.True(t, n.try("hello", journal.PriInfo, []field{{"A", "b"}}))
	assert.Equal(t, "PRIORITY=6\nMESSAGE=hello\nA=b\n", read())
	require.True(t, n.try("two\nlines", journal.PriErr, nil))
	assert.Equal(t, "PRIORITY=3\nMESSAGE\n\x09\x00\x00\x00\x00\x00\x00\x00two\nlines\n", read())

	assert.False(t, n.try(strings.Repeat("x", 1<<20), journal.PriErr, nil), "too large for a datagram")
	require.True(t, n.try("hello", journal.PriInfo, nil), "goes on")
	read()

	require.NoError(t, l.Close())
	assert.False(t, n.try("hello", journal.PriInfo, nil), "nobody listens")
	require.NoError(t, os.Remove(path))
	l, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	defer l.Close()
	require.True(t, n.try("hello again", journal.PriInfo, nil))
	assert.Contains(t, read(), "hello again")
}
