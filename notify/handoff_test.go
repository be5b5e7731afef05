package notify

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// remembered is what travels from one process to the next.
type remembered struct{ Count int }

// playSuccessor takes over: HOW, where that is not "serve", is how it fails.
func playSuccessor(args []string) int {
	switch args[0] {
	case "exit":
		return 7
	case "hang":
		_ = unix.Pause()
	}
	n, err := FromEnv(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return fail(err)
	}
	p, err := FromPredecessor()
	if err != nil {
		return fail(err)
	}
	p.Hush(n)
	if args[0] == "refuse" {
		p.Failed(errors.New("cannot work like this"))
		return 1
	}
	n.Status("nobody may hear this")
	var status string
	if known, err := p.State(&status); !known || err != nil {
		return fail(fmt.Errorf("%t: %w", known, err))
	}
	var state remembered
	if err := p.Ready(true, status, &state); err != nil {
		return fail(err)
	}
	n.Ready(fmt.Sprintf("counted %d", state.Count))
	p.Taken()
	l := p.Sockets()["web"][0]
	conn, err := l.Accept()
	if err != nil {
		return fail(err)
	}
	fmt.Fprintf(conn, "pid %d\n", os.Getpid())
	p.Drain()
	p.Tell(remembered{Count: 6})
	p.Hasten()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := p.Wait(ctx, func(news json.RawMessage) { fmt.Fprintf(conn, "told %s\n", news) }); err != nil {
		return fail(err)
	}
	fmt.Fprintln(conn, "alone")
	_ = conn.Close()
	return 0
}

type handing struct {
	notifier *Notifier
	notes    *net.UnixConn
	sockets  Sockets
}

func newHanding(t *testing.T) handing {
	t.Helper()
	dir, err := os.MkdirTemp("", "handoff")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	address := &net.UnixAddr{Net: "unixgram", Name: filepath.Join(dir, "notify")}
	notes, err := net.ListenUnixgram("unixgram", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = notes.Close() })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	n := &Notifier{logger: slog.New(slog.DiscardHandler), socket: address, watchdog: time.Minute}
	t.Cleanup(func() {
		if n.conn != nil {
			_ = n.conn.Close()
		}
	})
	return handing{notifier: n, notes: notes, sockets: Sockets{"web": {l}}}
}

func (h handing) note(t *testing.T) string {
	t.Helper()
	require.NoError(t, h.notes.SetReadDeadline(time.Now().Add(patience)))
	buf := make([]byte, 4096)
	n, err := h.notes.Read(buf)
	require.NoError(t, err)
	return string(buf[:n])
}

func (h handing) succeed(t *testing.T, how string) *Successor {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	s, err := Succeed([]string{exe, "successor", how}, h.notifier, h.sockets, "all is well")
	require.NoError(t, err)
	return s
}

func TestHandOver(t *testing.T) {
	h := newHanding(t)
	s := h.succeed(t, "serve")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	serving, status, err := s.Await(ctx)
	require.NoError(t, err)
	assert.True(t, serving)
	assert.Equal(t, "all is well", status)
	taken, err := s.Take(h.notifier, remembered{Count: 5})
	require.NoError(t, err)
	assert.True(t, taken)
	assert.Equal(t, fmt.Sprintf("MAINPID=%d", s.PID), h.note(t))
	assert.Equal(t, "READY=1\nSTATUS=counted 5", h.note(t))
	h.notifier.Status("from one that nobody listens to")

	// The same socket serves, now from the other process.
	conn, err := net.Dial("tcp", h.sockets["web"][0].Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	said := bufio.NewReader(conn)
	line, err := said.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprintf("pid %d\n", s.PID), line)

	drained, hastened, told := make(chan struct{}), make(chan struct{}), make(chan string, 1)
	orders, finish := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Orders(orders, func() { close(drained) }, func() { close(hastened) }, func(news json.RawMessage) { told <- string(news) })
	}()
	<-drained
	assert.Equal(t, `{"Count":6}`, <-told)
	<-hastened
	s.Tell(remembered{Count: 7})
	finish()
	<-ended
	require.NoError(t, s.peer.conn.Close()) // as the end of this process would
	rest, err := io.ReadAll(said)
	require.NoError(t, err)
	assert.Equal(t, "told {\"Count\":7}\nalone\n", string(rest))
}

func TestHandOverFails(t *testing.T) {
	for how, want := range map[string]string{
		"exit":   "the new process ended (exit status 7) before it was ready",
		"refuse": "cannot work like this",
		"hang":   "too slow",
	} {
		t.Run(how, func(t *testing.T) {
			h := newHanding(t)
			s := h.succeed(t, how)
			bound := patience
			if how == "hang" {
				bound = 50 * time.Millisecond
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), bound, errors.New("too slow"))
			defer cancel()
			_, _, err := s.Await(ctx)
			assert.EqualError(t, err, want)
			s.Kill()
			assert.ErrorIs(t, unix.Kill(s.PID, 0), unix.ESRCH, "it is still there")
			h.notifier.Ready("goes on")
			assert.Equal(t, "READY=1\nSTATUS=goes on", h.note(t))
		})
	}
	t.Run("no program", func(t *testing.T) {
		h := newHanding(t)
		_, err := Succeed([]string{"/nonexistent"}, h.notifier, h.sockets, "state")
		assert.EqualError(t, err, "cannot start /nonexistent: no such file or directory")
	})
}

// A new process that the service manager was not told of does not serve.
func TestHandOverThatNobodyHears(t *testing.T) {
	h := newHanding(t)
	s := h.succeed(t, "serve")
	_, _, err := s.Await(t.Context())
	require.NoError(t, err)
	process, err := unix.PidfdOpen(s.PID, 0)
	require.NoError(t, err)
	defer unix.Close(process)
	require.NoError(t, h.notes.Close())
	require.NoError(t, os.RemoveAll(h.notifier.socket.Name))
	taken, err := s.Take(h.notifier, remembered{})
	assert.False(t, taken)
	assert.ErrorContains(t, err, "cannot tell the service manager of the new process")
	ended, err := 0, error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		ended, err = unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, 10_000)
	}
	require.NoError(t, err)
	assert.Equal(t, 1, ended, "it is still there")

	h.notes, err = net.ListenUnixgram("unixgram", h.notifier.socket)
	require.NoError(t, err)
	defer h.notes.Close()
	h.notifier.Ready("goes on")
	assert.Equal(t, "READY=1\nSTATUS=goes on", h.note(t))
}

// What does not fit into a message keeps this process in its place.
func TestHandOverOfTooMuch(t *testing.T) {
	h := newHanding(t)
	s := h.succeed(t, "serve")
	_, _, err := s.Await(t.Context())
	require.NoError(t, err)
	taken, err := s.Take(h.notifier, strings.Repeat("x", packetLimit))
	assert.False(t, taken)
	assert.ErrorContains(t, err, "too long")
	assert.ErrorIs(t, unix.Kill(s.PID, 0), unix.ESRCH, "it is still there")
	h.notifier.Ready("goes on")
	assert.Equal(t, "READY=1\nSTATUS=goes on", h.note(t))
}

func TestNoPredecessor(t *testing.T) {
	p, err := FromPredecessor()
	require.NoError(t, err)
	assert.Nil(t, p)
	p.Hush(nil)
	p.Failed(io.EOF)
	p.Taken()
	p.Drain()
	p.Tell(1)
	p.Hasten()
	assert.Nil(t, p.Sockets())
	known, err := p.State(nil)
	assert.False(t, known)
	assert.NoError(t, err)
	assert.NoError(t, p.Ready(true, "", nil))
	assert.NoError(t, p.Wait(t.Context(), nil))
	var n *Notifier
	n.Reloading("")
}
