package direct_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/direct"
)

// pair is both ends of a connection.
func pair(t *testing.T, network, address string) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen(network, address)
	require.NoError(t, err)
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			accepted <- c
		}
		close(accepted)
	}()
	near, err = net.Dial(network, l.Addr().String())
	require.NoError(t, err)
	far, ok := <-accepted
	require.True(t, ok)
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return direct.Conn(near), far
}

func both(t *testing.T, test func(t *testing.T, near, far net.Conn)) {
	t.Run("tcp", func(t *testing.T) {
		near, far := pair(t, "tcp", "127.0.0.1:0")
		test(t, near, far)
	})
	t.Run("unix", func(t *testing.T) {
		near, far := pair(t, "unix", filepath.Join(t.TempDir(), "s"))
		test(t, near, far)
	})
}

// The test sends more than the kernel buffers, so that both directions wait.
func TestEverythingGoesThrough(t *testing.T) {
	sent := make([]byte, 8<<20)
	_, err := rand.Read(sent)
	require.NoError(t, err)
	both(t, func(t *testing.T, near, far net.Conn) {
		echoed := make(chan error, 1)
		go func() {
			_, err := io.CopyN(far, far, int64(len(sent)))
			echoed <- err
		}()
		wrote := make(chan error, 1)
		go func() {
			n, err := near.Write(sent)
			wrote <- errors.Join(err, map[bool]error{n != len(sent): io.ErrShortWrite}[true])
		}()
		got := make([]byte, len(sent))
		_, err := io.ReadFull(near, got)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(sent, got))
		require.NoError(t, <-wrote)
		require.NoError(t, <-echoed)
	})
}

func TestEndOfStream(t *testing.T) {
	both(t, func(t *testing.T, near, far net.Conn) {
		_, err := far.Write([]byte("x"))
		require.NoError(t, err)
		require.NoError(t, far.Close())
		n, err := near.Read(nil)
		assert.Zero(t, n)
		require.NoError(t, err)
		b, err := io.ReadAll(near)
		require.NoError(t, err)
		assert.Equal(t, "x", string(b))
	})
}

func TestDeadlines(t *testing.T) {
	both(t, func(t *testing.T, near, _ net.Conn) {
		require.NoError(t, near.SetDeadline(time.Now().Add(20*time.Millisecond)))
		_, err := near.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		for err = nil; err == nil; { // until the buffers of the kernel are full
			_, err = near.Write(make([]byte, 1<<20))
		}
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		assert.True(t, timeout.Timeout())
	})
}

func TestClose(t *testing.T) {
	both(t, func(t *testing.T, near, _ net.Conn) {
		read := make(chan error, 1)
		go func() {
			_, err := near.Read(make([]byte, 1))
			read <- err
		}()
		require.NoError(t, near.Close())
		require.ErrorIs(t, <-read, net.ErrClosed)
		_, err := near.Write([]byte("x"))
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

func TestErrorsOfThePeer(t *testing.T) {
	both(t, func(t *testing.T, near, far net.Conn) {
		require.NoError(t, far.Close())
		var err error
		for err == nil { // TCP notices it by the answer to the first
			_, err = near.Write([]byte("x"))
		}
		var errno syscall.Errno
		require.ErrorAs(t, err, &errno)
		assert.Contains(t, []syscall.Errno{syscall.EPIPE, syscall.ECONNRESET}, errno)
		assert.ErrorAs(t, err, new(*net.OpError))
	})
}

func TestOtherConnectionsAreLeftAlone(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	assert.Same(t, near, direct.Conn(near))
}
