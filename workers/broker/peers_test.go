package broker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	. "codex-proxy/workers/broker"
)

// dial connects without a client.
func (s *service) dial(t *testing.T) *net.UnixConn {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: s.path, Net: "unixpacket"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	return conn
}

func read(t *testing.T, conn net.Conn) map[string]any {
	buffer := make([]byte, 64<<10)
	n, err := conn.Read(buffer)
	require.NoError(t, err)
	message := map[string]any{}
	require.NoError(t, json.Unmarshal(buffer[:n], &message))
	return message
}

func TestAPeerThatIsNoRemote(t *testing.T) {
	s := newService(t, nil)
	s.Peer = func(context.Context, int32) (Peer, error) {
		return Peer{}, &Error{Code: NotARemote, Message: "only the main process of a remote"}
	}
	s.serve(t, s.listen(t))
	conn := s.dial(t)
	assert.Equal(t, map[string]any{"error": map[string]any{"code": "not_a_remote", "message": "only the main process of a remote"}},
		read(t, conn))
	_, err := conn.Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF)
}

// The process that answers must be the main one of the remote from before the server's word until after it.
func TestAProcessThatIsReplaced(t *testing.T) {
	s := newService(t, nil)
	var calls atomic.Int32
	s.Peer = func(context.Context, int32) (Peer, error) {
		return Peer{"build", fmt.Sprint(calls.Add(1))}, nil
	}
	s.serve(t, s.listen(t))
	conn := s.dial(t)
	word := read(t, conn)["hello"]
	require.NotEmpty(t, word)
	_, err := fmt.Fprintf(conn, `{"hello":%q}`, word)
	require.NoError(t, err)
	assert.Contains(t, read(t, conn)["error"], "message")
	assert.EqualValues(t, 2, calls.Load())
}

// A child has the connection, but is not the process that made it.
func TestAnotherProcessAnswers(t *testing.T) {
	s := newService(t, nil)
	s.serve(t, s.listen(t))
	conn := s.dial(t)
	word := read(t, conn)["hello"]
	file, err := conn.File()
	require.NoError(t, err)
	defer file.Close()
	child := startChild(t, fmt.Sprintf(`printf '{"hello":"%s"}' >&3`, word), file)
	require.NoError(t, child.Wait())
	assert.Equal(t, "not_a_remote", read(t, conn)["error"].(map[string]any)["code"])
}

// Peers that send anything but what a client sends lose their own connection, and delay nobody.
func TestHostilePeers(t *testing.T) {
	s := newService(t, func(Ask) (Assignment, error) { return Assignment{Account: "a"}, nil })
	s.remote.Store("evil")
	s.serve(t, s.listen(t))
	hello := func() *net.UnixConn {
		conn := s.dial(t)
		_, err := fmt.Fprintf(conn, `{"hello":%q}`, read(t, conn)["hello"])
		require.NoError(t, err)
		return conn
	}
	ended := func(conn net.Conn) {
		t.Helper()
		buffer := make([]byte, 64<<10)
		var err error
		for err == nil {
			_, err = conn.Read(buffer)
		}
		assert.False(t, errors.Is(err, os.ErrDeadlineExceeded), err)
	}
	for _, bytes := range []string{"x", "[]", strings.Repeat(" ", 17<<10) + "{}", `{"id":-1}`} {
		conn := hello()
		_, _ = conn.Write([]byte(bytes))
		ended(conn)
	}
	wrong := s.dial(t)
	read(t, wrong)
	_, _ = wrong.Write([]byte(`{"hello":"guess"}`))
	ended(wrong)

	// Descriptors that a peer sends are dropped.
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	conn := hello()
	_, _, err = conn.WriteMsgUnix([]byte(`{"id":1}`), unix.UnixRights(int(w.Fd())), nil)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	_, err = r.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "the server keeps no descriptor")

	s.remote.Store("build")
	_, err = s.client(t).Acquire(bound(t), Ask{})
	require.NoError(t, err)
}

// The connections of one remote are bounded, and those of others are not touched by it.
func TestTooManyConnections(t *testing.T) {
	s := newService(t, func(Ask) (Assignment, error) { return Assignment{Account: "a"}, nil })
	s.serve(t, s.listen(t))
	for n := range 5 {
		conn := s.dial(t)
		_, err := fmt.Fprintf(conn, `{"hello":%q}`, read(t, conn)["hello"])
		require.NoError(t, err)
		if n == 4 {
			assert.Equal(t, "too_many", read(t, conn)["error"].(map[string]any)["code"])
			break
		}
		_, err = conn.Write([]byte(`{"id":1,"lease":{}}`))
		require.NoError(t, err)
		assert.Equal(t, "a", read(t, conn)["account"])
	}
	s.remote.Store("other")
	got, err := s.client(t).Acquire(bound(t), Ask{})
	require.NoError(t, err)
	assert.Equal(t, "a", got.Account)
}
