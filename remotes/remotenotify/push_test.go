package remotenotify

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A notice reaches the one who accepts later, whole; nobody waits for one who does not.
func TestPush(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	require.ErrorContains(t, Push(path, Notice{}), "systemctl enable --now codex-console.socket")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer l.Close()
	n := Notice{"build", "turn-ended", at, "t1", "2", "completed", strings.Repeat("é", maxText/2)}
	require.NoError(t, Push(path, n))
	conn, err := l.Accept()
	require.NoError(t, err)
	defer conn.Close()
	got, err := Receive(conn)
	require.NoError(t, err)
	assert.Equal(t, n, got)
	pid, err := Sender(conn)
	require.NoError(t, err)
	assert.EqualValues(t, os.Getpid(), pid)

	other, err := net.Dial("unix", path)
	require.NoError(t, err)
	_, err = other.Write([]byte("no notice"))
	require.NoError(t, err)
	require.NoError(t, other.Close())
	conn, err = l.Accept()
	require.NoError(t, err)
	defer conn.Close()
	_, err = Receive(conn)
	require.Error(t, err)

	const most = 100_000
	for range most {
		if err := Push(path, n); err != nil {
			assert.ErrorContains(t, err, "too many wait")
			return
		}
	}
	assert.Fail(t, "it takes all")
}
