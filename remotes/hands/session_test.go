package hands

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/codex/versions"
	"codex-proxy/runner/api/apitest"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
	"codex-proxy/runner/outcome"
	"codex-proxy/runner/session"
	"codex-proxy/test/codexes"
)

// runnerBed has hands at a codex-runner that is played. The test ends its commands; a diff ends by itself, as others do
// that are cancelled.
type runnerBed struct {
	*Hands
	t        *testing.T
	renewed  chan string // sessions
	commands chan *apitest.Command

	mu     sync.Mutex
	serves map[string]bool // sessions
	port   string          // the address of an exec-server; empty: connections end at once
}

func newRunnerBed(t *testing.T, record string) *runnerBed {
	t.Helper()
	b := &runnerBed{t: t, renewed: make(chan string, 10), commands: make(chan *apitest.Command, 10), serves: map[string]bool{}}
	d := apitest.Start(t, func(c *apitest.Command) {
		if session.IsDiff(c.Asked.Args) {
			c.End(outcome.Outcome{Word: outcome.Succeeded, Text: "The command succeeded."})
			return
		}
		b.commands <- c
		<-c.Cancelled()
		c.End(outcome.Outcome{Word: outcome.Cancelled, CancelledBy: "alice", ExitStatus: 130, Text: "The command was cancelled."})
	})
	dir := t.TempDir()
	if record != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, recordName), []byte(record), 0o600))
	}
	var err error
	b.Hands, err = New(Options{Mark: "codex-remote@build", Client: client.New(b.front(d.Socket)), Dir: dir, Program: "/usr/bin/codex",
		Source: Source{Repo: "https://example.org/app"}, Renewed: func() { b.renewed <- b.Session() },
		Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return b
}

// front passes requests on to the player, but for those to ports, as the port of an exec-server is the machine's there.
func (b *runnerBed) front(player string) (socket string) {
	b.t.Helper()
	pass := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "codex-runner"})
	pass.Transport = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", player)
	}}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, "/ports/") {
			pass.ServeHTTP(w, r)
			return
		}
		b.mu.Lock()
		serves, port := b.serves[strings.Split(r.URL.Path, "/")[3]], b.port
		b.mu.Unlock()
		if !serves {
			http.Error(w, "no program listens", http.StatusNotFound)
			return
		}
		conn, from, err := http.NewResponseController(w).Hijack()
		if !assert.NoError(b.t, err) {
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", wire.PortProtocol)
		if port == "" {
			return
		}
		server, err := net.Dial("tcp", port)
		if !assert.NoError(b.t, err) {
			return
		}
		defer server.Close()
		stream := wire.NewPortStream(conn, from)
		go func() { _, _ = io.Copy(server, stream); server.Close() }()
		_, _ = io.Copy(stream, server)
	}))
	dir, err := os.MkdirTemp("", "hands") // the path of a socket has at most 107 bytes
	require.NoError(b.t, err)
	b.t.Cleanup(func() { os.RemoveAll(dir) })
	s.Listener.Close()
	socket = filepath.Join(dir, "api.sock")
	s.Listener, err = net.Listen("unix", socket)
	require.NoError(b.t, err)
	s.Start()
	b.t.Cleanup(s.Close)
	return socket
}

// next is the next command that runs. Its session serves from then on, or not.
func (b *runnerBed) next(serves bool) *apitest.Command {
	b.t.Helper()
	select {
	case c := <-b.commands:
		b.mu.Lock()
		defer b.mu.Unlock()
		b.serves[c.Session] = serves
		return c
	case <-time.After(enough):
		require.Fail(b.t, "no command begins")
		return nil
	}
}

// open has the hands serve in a session.
func (b *runnerBed) open() *apitest.Command {
	b.t.Helper()
	opened := make(chan error, 1)
	go func() { opened <- b.Open(b.t.Context()) }()
	c := b.next(true)
	require.NoError(b.t, <-opened)
	return c
}

// A new checkout is announced once it serves. Those that fail before take no place in the record.
func TestACheckoutThatFails(t *testing.T) {
	b := newRunnerBed(t, "")
	first := b.open()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { b.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	gone := outcome.Decide(outcome.Facts{Ended: &session.Ended{Refusal: session.NoWorkspace}})
	failed := outcome.Decide(outcome.Facts{Result: &session.Result{
		Failure: &session.Failure{Stage: session.WorkspaceTask, Text: "a submodule has no such commit"}}})
	first.End(outcome.Outcome{Word: outcome.Lost, ExitStatus: 125, Text: "The command was lost."})
	b.next(false).End(gone)
	b.next(false).End(failed)
	second := b.next(false)
	second.End(gone)
	last := b.next(true)
	select {
	case id := <-b.renewed:
		assert.Equal(t, last.Session, id)
	case <-time.After(enough):
		require.Fail(t, "the new checkout is not announced")
	}
	assert.Empty(t, b.renewed)
	b.Hands.mu.Lock()
	defer b.Hands.mu.Unlock()
	require.Len(t, b.record.Renewals, 1)
	assert.Equal(t, first.Session, b.record.Renewals[0].Session)
	assert.NotEqual(t, first.Session, second.Session)
}

// A session that no record names is closed when another one begins, and codex-runner keeps its changes first.
func TestSessionsWithoutARecord(t *testing.T) {
	b := newRunnerBed(t, "{")
	begin := func(mark string) wire.Session {
		t.Helper()
		s, err := b.Client.CreateSession(t.Context(), wire.NewSession{Repository: "https://example.org/app",
			Commands: []wire.NewCommand{{Args: []string{"/bin/sh", "-c", `exec "$@"`, mark, "codex"}}}})
		require.NoError(t, err)
		b.next(false)
		return s
	}
	end := func(s wire.Session) wire.Session {
		t.Helper()
		_, err := b.Client.Cancel(t.Context(), s.ID, 1)
		require.NoError(t, err)
		_, err = b.Client.Wait(t.Context(), s.ID, 1)
		require.NoError(t, err)
		return s
	}
	other, active, idle, ended := begin("codex-remote@other"), begin(b.Mark), end(begin(b.Mark)), end(begin(b.Mark))
	_, err := b.Client.AddCommand(t.Context(), ended.ID, lifecycle{b.Hands}.diff(ended))
	require.NoError(t, err)
	opened := b.open()
	for _, s := range []wire.Session{active, idle, ended} {
		s, err := b.Client.Session(t.Context(), s.ID)
		require.NoError(t, err)
		assert.Equal(t, wire.SessionClosed, s.State)
		require.Len(t, s.Commands, 2)
		assert.True(t, session.IsDiff(s.Commands[1].Args))
		assert.Equal(t, outcome.Succeeded, s.Commands[1].Outcome.Word)
	}
	for _, id := range []string{other.ID, opened.Session} {
		s, err := b.Client.Session(t.Context(), id)
		require.NoError(t, err)
		assert.NotEqual(t, wire.SessionClosed, s.State)
	}
	assert.FileExists(t, filepath.Join(b.Dir, recordName+".bad"))
}

// An exec-server that is stopped, by a command as a rule, is ended after three probes, and another one starts.
func TestAStoppedExecServer(t *testing.T) {
	codexes.Each(t, versions.OldestForRemotes, func(t *testing.T, _ int, program string) {
		b := newRunnerBed(t, "")
		dir, err := os.MkdirTemp("/var/tmp", "hands")
		require.NoError(t, err)
		t.Cleanup(func() { os.RemoveAll(dir) })
		server, address := execServer(t, program, dir)
		b.port = address
		b.pace = pace{every: 20 * time.Millisecond, bound: time.Second, again: time.Millisecond}
		first := b.open()
		b.token = tokenTest // as the one that runs has it
		probe := probes{b.Hands}
		require.NoError(t, probe.answers(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { b.Run(ctx) })
		t.Cleanup(func() { cancel(); running.Wait() })
		select {
		case <-first.Cancelled():
			require.Fail(t, "an exec-server that answers is ended")
		case <-time.After(200 * time.Millisecond):
		}
		require.NoError(t, server.Signal(unix.SIGSTOP))
		assert.Equal(t, first.Session, b.next(true).Session)
		require.NoError(t, server.Signal(unix.SIGCONT))
	})
}
