package handoff

import (
	"bufio"
	"bytes"
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
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"codex-proxy/notify"
)

// patience is the longest that any wait of these tests takes.
const patience = time.Minute

// The test binary is also the processes that the tests need: started with a role as its
// first argument, it plays that role.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == LaunchCommand {
		os.Exit(Launch(os.Args[2:], os.Stdin, os.Stdout))
	}
	if len(os.Args) > 2 && os.Args[1] == "successor" {
		os.Exit(playSuccessor(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 99
}

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
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	n, err := notify.FromEnv(logger)
	if err != nil {
		return fail(err)
	}
	p, err := FromPredecessor()
	if err != nil {
		return fail(err)
	}
	p.Attach(n, logger)
	if args[0] == "refuse" {
		p.Failed(errors.New("cannot work like this"))
		return 1
	}
	n.Status("dropped")
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
	p.Send(Drain, nil)
	p.Send("a later one", remembered{Count: 5})
	p.Send(Drains, remembered{Count: 6})
	p.Send(Hasten, nil)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	handle := func(m Message) bool {
		for _, f := range m.Files {
			_, _ = io.Copy(conn, f)
			_ = f.Close()
		}
		fmt.Fprintf(conn, "got %s %d %s\n", m.Kind, m.Version, m.Body)
		return true
	}
	if err := p.Wait(ctx, handle); err != nil {
		return fail(err)
	}
	fmt.Fprintln(conn, "alone")
	_ = conn.Close()
	return 0
}

type handing struct {
	notifier *notify.Notifier
	address  *net.UnixAddr
	notes    *net.UnixConn
	sockets  notify.Sockets
	log      *bytes.Buffer
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
	t.Setenv("NOTIFY_SOCKET", address.Name)
	t.Setenv("WATCHDOG_USEC", "60000000")
	n, err := notify.FromEnv(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return handing{notifier: n, address: address, notes: notes,
		sockets: notify.Sockets{"web": {l}}, log: &bytes.Buffer{}}
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
	s, err := Succeed(Settings{Program: []string{exe, "successor", how}, Notifier: h.notifier, Sockets: h.sockets,
		State: "all is well", Logger: slog.New(slog.NewTextHandler(h.log, nil))})
	require.NoError(t, err)
	return s
}

func TestHandOff(t *testing.T) {
	h := newHanding(t)
	s := h.succeed(t, "serve")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	serving, status, err := s.Await(ctx)
	require.NoError(t, err)
	assert.True(t, serving)
	assert.Equal(t, "all is well", status)
	taken, err := s.Take(remembered{Count: 5})
	require.NoError(t, err)
	assert.True(t, taken)
	assert.Equal(t, fmt.Sprintf("MAINPID=%d", s.PID), h.note(t))
	assert.Equal(t, "READY=1\nSTATUS=counted 5", h.note(t))
	h.notifier.Status("dropped")

	// The same socket serves, now from the other process.
	conn, err := net.Dial("tcp", h.sockets["web"][0].Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	greeting := bufio.NewReader(conn)
	line, err := greeting.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprintf("pid %d\n", s.PID), line)

	messages := make(chan Message, 4)
	following, finish := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Follow(following, func(m Message) bool {
			messages <- m
			return m.Kind != "a later one"
		})
	}()
	assert.Equal(t, Message{Kind: Drain, Version: Version}, <-messages)
	assert.Equal(t, Message{Kind: "a later one", Version: Version, Body: json.RawMessage(`{"Count":5}`)}, <-messages)
	assert.Equal(t, Message{Kind: Drains, Version: Version, Body: json.RawMessage(`{"Count":6}`)}, <-messages)
	assert.Equal(t, Message{Kind: Hasten, Version: Version}, <-messages)
	s.Send(Turns, remembered{Count: 7})
	file, err := os.Open(writeFile(t, "a file\n"))
	require.NoError(t, err)
	defer file.Close()
	raw, err := file.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) { assert.NoError(t, s.Pass(Link, remembered{Count: 8}, int(fd))) }))
	finish()
	<-ended
	assert.Contains(t, h.log.String(), "its kind is unknown\" kind=\"a later one\" version=1\n")
	assert.Equal(t, 1, strings.Count(h.log.String(), "\n"), h.log)
	require.NoError(t, s.peer.conn.Close()) // as the end of this process would
	rest, err := io.ReadAll(greeting)
	require.NoError(t, err)
	assert.Equal(t, "got turns 1 {\"Count\":7}\na file\ngot link 1 {\"Count\":8}\nalone\n", string(rest))
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestHandOffFails(t *testing.T) {
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
		_, err := Succeed(Settings{Program: []string{"/nonexistent"}, Notifier: h.notifier,
			Sockets: h.sockets, State: "state"})
		assert.EqualError(t, err, "cannot start /nonexistent: no such file or directory")
	})
}

// A new process whose MAINPID= the service manager has not received does not serve.
func TestHandOffWithoutTheServiceManager(t *testing.T) {
	h := newHanding(t)
	s := h.succeed(t, "serve")
	_, _, err := s.Await(t.Context())
	require.NoError(t, err)
	process, err := unix.PidfdOpen(s.PID, 0)
	require.NoError(t, err)
	defer unix.Close(process)
	require.NoError(t, h.notes.Close())
	require.NoError(t, os.RemoveAll(h.address.Name))
	taken, err := s.Take(remembered{})
	assert.False(t, taken)
	assert.ErrorContains(t, err, "cannot announce the new process to the service manager")
	ended, err := 0, error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		ended, err = unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, int(patience.Milliseconds()))
	}
	require.NoError(t, err)
	assert.Equal(t, 1, ended, "it is still there")

	h.notes, err = net.ListenUnixgram("unixgram", h.address)
	require.NoError(t, err)
	defer h.notes.Close()
	h.notifier.Ready("goes on")
	assert.Equal(t, "READY=1\nSTATUS=goes on", h.note(t))
}

// What does not fit into a message keeps this process in its place.
func TestHandOffOfTooMuch(t *testing.T) {
	h := newHanding(t)
	s := h.succeed(t, "serve")
	_, _, err := s.Await(t.Context())
	require.NoError(t, err)
	taken, err := s.Take(strings.Repeat("x", packetLimit))
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
	p.Attach(nil, nil)
	p.Failed(io.EOF)
	p.Taken()
	p.Send(Drain, nil)
	assert.Nil(t, p.Sockets())
	known, err := p.State(nil)
	assert.False(t, known)
	assert.NoError(t, err)
	assert.NoError(t, p.Ready(true, "", nil))
	assert.NoError(t, p.Wait(t.Context(), nil))
	var n *notify.Notifier
	n.Reloading("")
}
