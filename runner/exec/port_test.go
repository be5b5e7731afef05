package exec

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/session"
)

// running runs a command until it is cancelled by end.
func (b *bed) running() (end func() *session.Result) {
	b.t.Helper()
	goOn, ended := b.begin()
	f := b.dial()
	f.ask(`{"version":1,"do":"follow"}`)
	goOn()
	require.True(b.t, f.lines.Scan())
	return func() *session.Result {
		b.t.Helper()
		b.dial().ask(`{"version":1,"do":"cancel","by":"alice"}`)
		return ended()
	}
}

// port connects to a port.
func (b *bed) port(port int) (*wire.PortStream, Reply) {
	b.t.Helper()
	conn, err := net.Dial("unix", b.socket())
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = conn.Close() })
	require.NoError(b.t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = fmt.Fprintf(conn, `{"version":1,"do":"port","port":%d}`+"\n", port)
	require.NoError(b.t, err)
	input := bufio.NewReader(conn)
	line, err := input.ReadBytes('\n')
	require.NoError(b.t, err)
	var reply Reply
	require.NoError(b.t, json.Unmarshal(line, &reply))
	return wire.NewPortStream(conn, input), reply
}

// server listens on a loopback address, and calls serve with each connection.
func server(t *testing.T, address string, serve func(*net.TCPConn)) (port int) {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
			go serve(conn.(*net.TCPConn))
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port
}

// reverse answers, when its client has ended its direction, and ends.
func reverse(conn *net.TCPConn) {
	defer conn.Close()
	text, _ := io.ReadAll(conn)
	_, _ = fmt.Fprintf(conn, "%d bytes", len(text))
}

func TestPort(t *testing.T) {
	b := newBed(t, shell("exec sleep 1000"))
	end := b.running()
	for _, address := range []string{"127.0.0.1", "::1"} {
		stream, reply := b.port(server(t, address, reverse))
		require.Empty(t, reply.Error)
		_, err := stream.Write([]byte(strings.Repeat("x", 100_000)))
		require.NoError(t, err)
		require.NoError(t, stream.CloseWrite())
		got, err := io.ReadAll(stream)
		require.NoError(t, err)
		assert.Equal(t, "100000 bytes", string(got))
	}
	_, reply := b.port(1)
	assert.Equal(t, "no program listens on port 1, on 127.0.0.1 or ::1", reply.Error)
	assert.Equal(t, session.Cancelled, end().Cause)
}

// The end of the command ends connections, and an answer that is whole by then is passed on.
func TestPortsEndWithTheCommand(t *testing.T) {
	b := newBed(t, shell("exec sleep 1000"))
	end := b.running()
	open, reply := b.port(server(t, "127.0.0.1", func(conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn) }))
	require.Empty(t, reply.Error)
	answered, reply := b.port(server(t, "127.0.0.1", func(conn *net.TCPConn) {
		_, _ = conn.Write([]byte("answer"))
		_ = conn.Close()
	}))
	require.Empty(t, reply.Error)
	end()
	got, err := io.ReadAll(answered)
	require.NoError(t, err)
	assert.Equal(t, "answer", string(got))
	_, err = io.ReadAll(open)
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestPortsAreBounded(t *testing.T) {
	b := newBed(t, shell("exec sleep 1000"))
	end := b.running()
	port := server(t, "127.0.0.1", reverse)
	var streams []*wire.PortStream
	for range mostConnections {
		stream, reply := b.port(port)
		require.Empty(t, reply.Error)
		streams = append(streams, stream)
	}
	_, reply := b.port(port)
	assert.Equal(t, "it has 64 connections to its ports already", reply.Error)
	require.NoError(t, streams[0].CloseWrite())
	_, err := io.ReadAll(streams[0])
	require.NoError(t, err)
	require.Eventually(t, func() bool { // its place is free soon after
		_, reply = b.port(port)
		return reply.Error == ""
	}, patience, time.Millisecond)
	end()
}
