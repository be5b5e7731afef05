package notify

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// storingManager plays the service manager's end of the notify socket.
func storingManager(t *testing.T) (*net.UnixConn, *Notifier) {
	t.Helper()
	address := &net.UnixAddr{Net: "unixgram", Name: filepath.Join(t.TempDir(), "notify")}
	conn, err := net.ListenUnixgram("unixgram", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn, &Notifier{socket: address}
}

// receive returns the next message and the file with it.
func receive(t *testing.T, conn *net.UnixConn) (string, *os.File) {
	t.Helper()
	text, control := make([]byte, 256), make([]byte, unix.CmsgSpace(4))
	n, c, _, _, err := conn.ReadMsgUnix(text, control)
	require.NoError(t, err)
	messages, err := unix.ParseSocketControlMessage(control[:c])
	require.NoError(t, err)
	require.Len(t, messages, 1)
	fds, err := unix.ParseUnixRights(&messages[0])
	require.NoError(t, err)
	return string(text[:n]), os.NewFile(uintptr(fds[0]), "received")
}

func TestStore(t *testing.T) {
	conn, n := storingManager(t)
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("content"), 0o600))
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, n.Store("spec", file))
	text, copied := receive(t, conn)
	defer copied.Close()
	assert.Equal(t, "FDSTORE=1\nFDPOLL=0\nFDNAME=spec", text)
	content := make([]byte, 7)
	_, err = copied.Read(content)
	require.NoError(t, err)
	assert.Equal(t, "content", string(content))
}

func TestForget(t *testing.T) {
	conn, n := storingManager(t)
	require.NoError(t, n.Forget("a", "b"))
	for _, name := range []string{"a", "b"} {
		message := make([]byte, 100)
		size, err := conn.Read(message)
		require.NoError(t, err)
		assert.Equal(t, "FDSTOREREMOVE=1\nFDNAME="+name, string(message[:size]))
	}
	assert.Error(t, (*Notifier)(nil).Forget("a"))
}

// TestBarrier waits until the manager closes the file that came with the message.
func TestBarrier(t *testing.T) {
	conn, n := storingManager(t)
	done := make(chan error, 1)
	go func() { done <- n.Barrier(t.Context()) }()
	text, file := receive(t, conn)
	assert.Equal(t, "BARRIER=1", text)
	select {
	case err := <-done:
		require.Fail(t, "the barrier is not reached", "%v", err)
	default:
	}
	require.NoError(t, file.Close())
	require.NoError(t, <-done)
}

func TestBarrierIsBounded(t *testing.T) {
	_, n := storingManager(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	assert.ErrorContains(t, n.Barrier(ctx), "the service manager has not answered: enough")
}

func TestStoreWithoutAManager(t *testing.T) {
	var n *Notifier
	assert.ErrorIs(t, n.Store("spec", os.Stdin), errNoManager)
	assert.ErrorIs(t, n.Barrier(t.Context()), errNoManager)
}
