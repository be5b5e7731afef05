package links

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"codex-proxy/probes"
	"codex-proxy/proxy"
	"codex-proxy/proxy/answer"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/connections"
	"codex-proxy/proxy/limits"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

// bed is a server with links, and remotes that send every message back.
type bed struct {
	*testing.T
	dir     string
	keys    *auth.Keys
	secrets map[string]string // by the name of the key
	links   *Links
	url     string
	log     *safeBuffer
	states  map[string]State

	mu    sync.Mutex
	heads []http.Header // of the requests that remotes have got
}

// newBed has a key for each line of limits, by its name.
func newBed(t *testing.T, keys map[string]string, changes ...func(*Settings)) *bed {
	b := &bed{T: t, dir: t.TempDir(), keys: &auth.Keys{}, secrets: map[string]string{}, log: &safeBuffer{},
		states: map[string]State{}}
	var file strings.Builder
	for name, words := range keys {
		secret, line, err := auth.Generate(name)
		require.NoError(t, err)
		b.secrets[name] = secret
		file.WriteString(line + " " + words + "\n")
	}
	require.NoError(t, b.keys.Replace(file.String()))
	registry := prometheus.NewRegistry()
	b.links = b.newLinks(registry, changes...)
	server := proxy.New(proxy.Settings{
		Report: func() probes.Report { return probes.Report{} }, Keys: b.keys,
		Limiter: limits.NewLimiter(limits.Settings{Keys: b.keys}), Memory: limits.NewMemory(1<<20, 0),
		Connections: connections.New(nil), WriteTimeout: time.Minute, Registry: registry,
		Logger: slog.New(slog.DiscardHandler),
	})
	server.Mount((&Endpoint{Links: b.links, Answers: answer.New(time.Minute, prometheus.NewRegistry())}).Routes()...)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b.url = "http://" + l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		assert.NoError(t, b.links.Close(ctx, "the test is over"))
		assert.NoError(t, server.Shutdown(ctx))
		assert.NoError(t, <-served)
	})
	return b
}

func (b *bed) newLinks(registry *prometheus.Registry, changes ...func(*Settings)) *Links {
	s := Settings{
		Keys: b.keys, Keepalive: time.Minute, Registry: registry, Logger: slog.New(slog.NewTextHandler(b.log, nil)),
		Socket: func(remote string) string { return filepath.Join(b.dir, remote) },
		State: func(_ context.Context, remote string) State {
			b.mu.Lock()
			defer b.mu.Unlock()
			if state, known := b.states[remote]; known {
				return state
			}
			return State{Name: "active"}
		},
	}
	for _, change := range changes {
		change(&s)
	}
	return New(s)
}

// successor is a further process of the same service.
func (b *bed) successor() *Links {
	links := b.newLinks(prometheus.NewRegistry())
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		assert.NoError(b, links.Close(ctx, "the test is over"))
	})
	return links
}

// passTo gives links to another process.
func (b *bed) passTo(to *Links) Pass {
	return func(about any, fds ...int) error {
		raw, err := json.Marshal(about)
		require.NoError(b, err)
		var files []*os.File
		for _, fd := range fds {
			copied, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
			require.NoError(b, err)
			files = append(files, os.NewFile(uintptr(copied), "passed"))
		}
		return to.Adopt(raw, files)
	}
}

// remote listens as a remote, and gives each of its connections to serve.
func (b *bed) remote(name string, serve func(context.Context, *websocket.Conn)) {
	l, err := net.Listen("unix", filepath.Join(b.dir, name))
	require.NoError(b, err)
	ctx, stop := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		b.heads = append(b.heads, r.Header)
		b.mu.Unlock()
		serving.Add(1)
		defer serving.Done()
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		conn.SetReadLimit(-1)
		defer conn.CloseNow()
		serve(ctx, conn)
	})}
	go func() { _ = server.Serve(l) }()
	b.Cleanup(func() { stop(); _ = server.Close(); serving.Wait() })
}

// echo sends every message back.
func echo(ctx context.Context, conn *websocket.Conn) {
	for {
		kind, message, err := conn.Read(ctx)
		if err != nil || conn.Write(ctx, kind, message) != nil {
			return
		}
	}
}

// dial attaches with a key.
func (b *bed) dial(path, key string, change ...func(*websocket.DialOptions)) *websocket.Conn {
	conn, _, err := b.try(path, key, change...)
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(-1)
	return conn
}

func (b *bed) try(path, key string, change ...func(*websocket.DialOptions)) (*websocket.Conn, *http.Response, error) {
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	o := &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + b.secrets[key]}}}
	for _, c := range change {
		c(o)
	}
	return websocket.Dial(ctx, b.url+path, o)
}

// says asserts that the remote answers.
func (b *bed) says(conn *websocket.Conn, text string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	require.NoError(b, conn.Write(ctx, websocket.MessageText, []byte(text)))
	_, got, err := conn.Read(ctx)
	require.NoError(b, err)
	require.Equal(b, text, string(got))
}

// closed asserts that the connection was closed so.
func (b *bed) closed(conn *websocket.Conn, code websocket.StatusCode, reason string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	_, _, err := conn.Read(ctx)
	var closed websocket.CloseError
	require.ErrorAs(b, err, &closed)
	assert.Equal(b, websocket.CloseError{Code: code, Reason: reason}, closed)
}

func (b *bed) count(l *Links) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// none waits until the links have none left.
func (b *bed) none(l *Links) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	require.NoError(b, l.await(ctx))
}

type safeBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
