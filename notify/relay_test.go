package notify

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// startRelay runs a relay to a target that handles connections with serve. It returns
// functions to connect and to end the relay.
func startRelay(t *testing.T, limit int, serve func(*net.UnixConn), changes ...func(*Relay)) (
	dial func() *net.UnixConn, stop func(),
) {
	t.Helper()
	dir := t.TempDir()
	listen := func(name string) net.Listener {
		l, err := net.Listen("unix", filepath.Join(dir, name))
		require.NoError(t, err)
		return l
	}
	target := listen("target")
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := target.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { defer conn.Close(); serve(conn.(*net.UnixConn)) })
		}
	})
	r := &Relay{Listeners: []net.Listener{listen("front")}, Target: target.Addr().String(), Limit: limit}
	for _, change := range changes {
		change(r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	serving.Go(func() { r.Run(ctx, slog.New(slog.DiscardHandler)) })
	stop = func() { cancel(); target.Close(); serving.Wait() }
	t.Cleanup(stop)
	return func() *net.UnixConn {
		conn, err := net.Dial("unix", filepath.Join(dir, "front"))
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
		return conn.(*net.UnixConn)
	}, stop
}

func TestRelayUnderLoad(t *testing.T) {
	before := descriptors(t)
	dial, stop := startRelay(t, 8, func(conn *net.UnixConn) {
		_, _ = io.Copy(struct{ io.Writer }{conn}, conn)
		_ = conn.CloseWrite()
	})
	var clients sync.WaitGroup
	for range 64 { // eight times the limit: the rest waits in the backlog
		conn := dial()
		clients.Go(func() {
			defer conn.Close()
			sent := make([]byte, 300_000)
			_, _ = rand.Read(sent)
			clients.Go(func() {
				_, err := conn.Write(sent)
				assert.NoError(t, err)
				assert.NoError(t, conn.CloseWrite()) // the answer goes on after this
			})
			received, err := io.ReadAll(conn)
			assert.NoError(t, err)
			assert.True(t, bytes.Equal(sent, received))
		})
	}
	clients.Wait()
	stop()
	assert.LessOrEqual(t, descriptors(t), before)
}

// Serve has the connections in place of the relay, which closes them, and ends with the command.
func TestRelayServesByAFunction(t *testing.T) {
	ended := make(chan error, 1)
	dial, stop := startRelay(t, 1, nil, func(r *Relay) {
		r.Serve = func(ctx context.Context, client *net.UnixConn, target string) error {
			assert.Equal(t, r.Target, target)
			_, err := io.WriteString(client, "served")
			assert.NoError(t, err)
			if first := make([]byte, 1); assert.NoError(t, readFull(client, first)) && first[0] == 'w' {
				<-ctx.Done()
				ended <- ctx.Err()
			}
			return nil
		}
	})
	conn := dial()
	_, err := io.WriteString(conn, "x")
	require.NoError(t, err)
	all, err := io.ReadAll(conn)
	require.NoError(t, err)
	assert.Equal(t, "served", string(all))

	conn = dial()
	_, err = io.WriteString(conn, "w")
	require.NoError(t, err)
	require.NoError(t, readFull(conn, make([]byte, len("served"))))
	stop()
	assert.Equal(t, context.Canceled, <-ended)
}

func readFull(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	return err
}

func descriptors(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(fds)
}

// The end of a client ends the connection to the command, and the end of that ends
// the client's, even if the client itself does not close.
func TestRelayPassesTheEndOn(t *testing.T) {
	ended := make(chan error, 1)
	dial, _ := startRelay(t, 1, func(conn *net.UnixConn) {
		first := make([]byte, 1)
		_, err := io.ReadFull(conn, first)
		if err == nil && first[0] == 'c' { // close on command
			return
		}
		_, err = conn.Read(first)
		ended <- err
	})
	gone := dial()
	_, err := gone.Write([]byte("x"))
	require.NoError(t, err)
	gone.Close()
	assert.Equal(t, io.EOF, <-ended)

	// None of these clients closes, yet each must free the one slot for the next.
	for range 3 {
		conn := dial()
		_, err := conn.Write([]byte("c"))
		require.NoError(t, err)
		_, err = conn.Read(make([]byte, 1))
		assert.Equal(t, io.EOF, err)
	}
}

// A client that does not read delays the end by flushBound at most.
func TestRelayFlushIsBounded(t *testing.T) {
	full := make(chan struct{})
	dial, stop := startRelay(t, 1, func(conn *net.UnixConn) {
		first := make([]byte, 1)
		_, _ = io.ReadFull(conn, first)
		close(full)
		_, _ = conn.Write(make([]byte, 64<<20))
	})
	_, err := dial().Write([]byte("x"))
	require.NoError(t, err)
	<-full
	began := time.Now()
	stop()
	assert.Less(t, time.Since(began), flushBound+patience)
}

// Connections made before the command is ready wait for it.
func TestRelayWaitsForReadiness(t *testing.T) {
	s := newShim(t, "DIR/server", "echo.socket", "server", "DIR/server").listen(t)
	early, err := net.Dial("unix", s.socket)
	require.NoError(t, err)
	defer early.Close()
	require.NoError(t, early.SetDeadline(time.Now().Add(patience)))
	_, err = early.Write([]byte("hello"))
	require.NoError(t, err)
	startServer(t, s)
	answer := make([]byte, 5)
	_, err = io.ReadFull(early, answer)
	require.NoError(t, err)
	assert.Equal(t, "hello", string(answer))
}

// The last bytes of a command arrive although it has exited.
func TestRelayDeliversLastWords(t *testing.T) {
	s := newShim(t, "DIR/server", "echo.socket", "lastwords", "DIR/server").listen(t).start(t)
	require.Contains(t, s.until(t, "STATUS=Starting"), "READY=1")
	conn, err := net.Dial("unix", s.socket)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = conn.Write([]byte("!"))
	require.NoError(t, err)
	words, err := io.ReadAll(conn)
	assert.NoError(t, err)
	assert.Len(t, words, lastWords)
	assert.Zero(t, s.wait(t).ExitStatus())
}

func TestRelayKilledCommand(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 3
	}
	var delays []time.Duration
	for range rounds {
		s := newShim(t, "DIR/server", "echo.socket", "server", "DIR/server").listen(t)
		startServer(t, s)
		client, pid := dialServer(t, s.socket)
		killed := time.Now()
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		_, err := client.Read(make([]byte, 1))
		delays = append(delays, time.Since(killed))
		require.Equal(t, io.EOF, err)
		assert.Equal(t, syscall.SIGKILL, s.wait(t).Signal())
	}
	slices.Sort(delays)
	t.Logf("killed → EOF: median %v, longest %v of %d", delays[rounds/2], delays[rounds-1], rounds)
	assert.Less(t, delays[0], time.Second, "the best round; other work of the machine delays some")
}

func TestRelayCommandGone(t *testing.T) {
	var log strings.Builder
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "front"))
	require.NoError(t, err)
	r := &Relay{Listeners: []net.Listener{l}, Target: filepath.Join(t.TempDir(), "nobody"), Limit: 1}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); r.Run(ctx, slog.New(slog.NewTextHandler(&log, nil))) }()
	conn, err := net.Dial("unix", l.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = conn.Read(make([]byte, 1))
	assert.Equal(t, io.EOF, err)
	cancel()
	<-ended
	assert.Contains(t, log.String(), "nobody")
}

// Connections that begin with the prefix go to Aside, even if it comes in pieces; all
// others reach the command whole.
func TestRelayAside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	front, err := net.Listen("unix", filepath.Join(dir, "front"))
	require.NoError(t, err)
	target, err := net.Listen("unix", filepath.Join(dir, "target"))
	require.NoError(t, err)
	aside, relayed := make(chan string, 8), make(chan string, 8)
	all := func(to chan<- string) func(net.Conn) {
		return func(conn net.Conn) {
			received, err := io.ReadAll(conn)
			assert.NoError(t, err)
			to <- string(received)
		}
	}
	r := &Relay{
		Listeners: []net.Listener{front}, Target: target.Addr().String(), Limit: 8,
		Aside: all(aside), AsidePrefix: "notes\n",
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx, slog.New(slog.DiscardHandler)) })
	running.Go(func() {
		for {
			conn, err := target.Accept()
			if err != nil {
				return
			}
			all(relayed)(conn)
			conn.Close()
		}
	})
	defer func() { cancel(); target.Close(); running.Wait() }()
	for _, tc := range []struct {
		to     <-chan string
		pieces []string
	}{
		{aside, []string{"notes\n"}},
		{aside, []string{"notes\nand more"}},
		{aside, []string{"no", "tes", "\nx"}},
		{relayed, []string{"GET / HTTP/1.1\r\n"}},
		{relayed, []string{"note"}},
		{relayed, []string{"not", "this"}},
		{relayed, []string{""}},
	} {
		conn, err := net.Dial("unix", front.Addr().String())
		require.NoError(t, err)
		for _, piece := range tc.pieces {
			_, err := conn.Write([]byte(piece))
			require.NoError(t, err)
		}
		require.NoError(t, conn.(*net.UnixConn).CloseWrite())
		select {
		case got := <-tc.to:
			assert.Equal(t, strings.Join(tc.pieces, ""), got)
		case <-time.After(patience):
			require.Fail(t, "lost", "%q", tc.pieces)
		}
		require.NoError(t, conn.Close())
	}
}
