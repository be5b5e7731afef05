package ports

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/wire"
)

// patience bounds every wait for an event.
const patience = time.Minute

// pair is the two ends of a TCP connection.
func pair(t *testing.T) (one, other *net.TCPConn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	dialled, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	accepted, err := listener.Accept()
	require.NoError(t, err)
	for _, conn := range []net.Conn{dialled, accepted} {
		t.Cleanup(func() { _ = conn.Close() })
		require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	}
	return dialled.(*net.TCPConn), accepted.(*net.TCPConn)
}

// bed is a client and a server with relays between them, as those of a caller and of a session.
type bed struct {
	client, server  *net.TCPConn
	caller, session Relays
	carrier         net.Conn // of the caller
	errs            chan error
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{session: Relays{Session: true}, errs: make(chan error, 2)}
	var atCaller, atSession *net.TCPConn
	b.client, atCaller = pair(t)
	atSession, b.server = pair(t)
	near, far := pair(t) // any connection does
	b.carrier = near
	go func() { b.errs <- b.caller.Relay(atCaller, wire.NewPortStream(near, near)) }()
	go func() { b.errs <- b.session.Relay(atSession, wire.NewPortStream(far, far)) }()
	return b
}

// The end of one direction is passed on, and the other one goes on: HTTP/1.0, and nc.
func TestHalfClose(t *testing.T) {
	b := newBed(t)
	_, err := b.client.Write([]byte("question"))
	require.NoError(t, err)
	require.NoError(t, b.client.CloseWrite())
	got, err := io.ReadAll(b.server)
	require.NoError(t, err)
	assert.Equal(t, "question", string(got))
	_, err = b.server.Write([]byte("answer"))
	require.NoError(t, err)
	require.NoError(t, b.server.Close())
	got, err = io.ReadAll(b.client)
	require.NoError(t, err)
	assert.Equal(t, "answer", string(got))
	require.NoError(t, <-b.errs)
	require.NoError(t, <-b.errs)
}

// A large transfer in both directions at the same time is byte for byte, to a reader that begins late.
func TestLargeTransfer(t *testing.T) {
	b := newBed(t)
	sent := make([]byte, 32<<20)
	_, _ = rand.Read(sent)
	var sending sync.WaitGroup
	for _, conn := range []*net.TCPConn{b.client, b.server} {
		sending.Go(func() {
			_, err := conn.Write(sent)
			assert.NoError(t, err)
			assert.NoError(t, conn.CloseWrite())
		})
	}
	for _, conn := range []*net.TCPConn{b.server, b.client} {
		got, err := io.ReadAll(conn)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(sent, got))
	}
	sending.Wait()
	require.NoError(t, <-b.errs)
	require.NoError(t, <-b.errs)
}

// A stream that is lost, as by a restart of the daemon, and a server that is reset are no ends of the answer.
func TestLossIsAReset(t *testing.T) {
	for name, lose := range map[string]func(*bed){
		"stream": func(b *bed) { _ = b.carrier.Close() },
		"server": func(b *bed) { _, _ = b.server.SetLinger(0), b.server.Close() },
		"close":  func(b *bed) { b.session.Close(0) },
	} {
		b := newBed(t)
		_, err := b.server.Write([]byte("a part"))
		require.NoError(t, err)
		_, err = io.ReadFull(b.client, make([]byte, 6))
		require.NoError(t, err)
		lose(b)
		_, err = b.client.Read(make([]byte, 1))
		assert.ErrorIs(t, err, syscall.ECONNRESET, name)
		assert.Error(t, errors.Join(<-b.errs, <-b.errs))
	}
}

// A client that goes away is seen by the server.
func TestClientIsReset(t *testing.T) {
	b := newBed(t)
	require.NoError(t, b.client.SetLinger(0))
	require.NoError(t, b.client.Close())
	_, err := b.server.Read(make([]byte, 1))
	assert.ErrorIs(t, err, syscall.ECONNRESET)
}

// Close passes on the answer of a server that has ended, also while the client leaves its direction open, and cuts the
// others.
func TestCloseDrains(t *testing.T) {
	b, open := newBed(t), newBed(t)
	_, err := b.server.Write([]byte("answer"))
	require.NoError(t, err)
	begun := make([]byte, 3) // both relays run then
	_, err = io.ReadFull(b.client, begun)
	require.NoError(t, err)
	_, err = b.server.Write([]byte("s"))
	require.NoError(t, err)
	require.NoError(t, b.server.Close())
	b.session.Close(patience)
	b.caller.Close(patience)
	got, err := io.ReadAll(b.client)
	require.NoError(t, err)
	assert.Equal(t, "answers", string(begun)+string(got))

	open.caller.Close(time.Millisecond)
	_, err = open.client.Read(make([]byte, 1))
	assert.ErrorIs(t, err, syscall.ECONNRESET)
	one, other := pair(t)
	assert.ErrorIs(t, open.caller.Relay(one, wire.NewPortStream(other, other)), ErrClosed)
	_, err = other.Read(make([]byte, 1))
	assert.Error(t, err, "it is closed")
}

// still is a side of a relay on which nothing passes until it is closed.
type still struct {
	net.Conn
	linger chan int
}

func (s *still) CloseWrite() error { return nil }

func (s *still) SetLinger(seconds int) error {
	s.linger <- seconds
	return nil
}

func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, client := net.Pipe()
		far, server := net.Pipe()
		tcp, done := &still{near, make(chan int, 1)}, make(chan struct{})
		var relays Relays
		began := time.Now()
		go func() {
			defer close(done)
			assert.Error(t, relays.Relay(tcp, &still{Conn: far}))
		}()
		<-time.After(Idle - time.Second)
		_, err := client.Write([]byte("x"))
		require.NoError(t, err)
		_, err = io.ReadFull(server, make([]byte, 1))
		require.NoError(t, err)
		<-done
		assert.Equal(t, 2*Idle-time.Second, time.Since(began))
		assert.Zero(t, <-tcp.linger, "a reset")
	})
}
