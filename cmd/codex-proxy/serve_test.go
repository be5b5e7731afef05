package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"codex-proxy/codex/appservertest"
)

// bound is the longest that any wait of these tests takes.
const bound = 5 * time.Minute

func received[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(bound):
		require.FailNow(t, "waited in vain")
		panic("unreachable")
	}
}

// roomy is more than a test leaves unread: a daemon whose lines or notifications nobody takes stands still.
const roomy = 100_000

// journalled is standard error: what was written, and each line as it comes.
type journalled struct {
	mu    sync.Mutex
	text  bytes.Buffer
	begun string // a line of which the rest is to come
	lines chan string
}

func newJournalled() *journalled { return &journalled{lines: make(chan string, roomy)} }

func (j *journalled) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.begun + string(p)) {
		if j.begun = line; strings.HasSuffix(line, "\n") {
			j.begun = ""
			j.lines <- line
		}
	}
	return j.text.Write(p)
}

func (j *journalled) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// service is the daemon run as systemd would run it: a notification socket, but
// no system bus.
type service struct {
	dir    string // of the workers' sockets
	config string // the settings' file, of a process
	url    string
	pid    int // of a process
	stderr *journalled
	socket *net.UnixAddr
	notes  chan string // each datagram
	seen   []string    // the ones taken from notes
	stop   context.CancelFunc
	status chan int
}

// serving starts the daemon and waits until it listens.
func serving(t *testing.T, settings ...string) *service {
	t.Helper()
	return servingUnder(t, "", settings...)
}

// servingUnder has a watchdog of that many microseconds.
func servingUnder(t *testing.T, watchdog string, settings ...string) *service {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	s := &service{
		dir: shortDir(t), stderr: newJournalled(), notes: make(chan string, roomy), status: make(chan int, 1),
	}
	notes := notifications(t, s.dir, s.notes)
	s.socket = notes.LocalAddr().(*net.UnixAddr)
	t.Setenv("NOTIFY_SOCKET", s.socket.Name)
	t.Setenv("WATCHDOG_USEC", watchdog)
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+filepath.Join(s.dir, "no-bus"))
	args := []string{"serve", "--config", configured(t, ""), "--set", "listen=127.0.0.1:0", "--set", "socket_dir=" + s.dir, "--set", "textfile=" + filepath.Join(s.dir, "codex-proxy.prom")}
	for _, set := range settings {
		args = append(args, "--set", set)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() { s.status <- run(ctx, args, io.Discard, s.stderr) }()
	t.Cleanup(func() {
		stop()
		if s.status != nil {
			received(t, s.status)
		}
		assert.NoError(t, notes.Close())
		for range s.notes { // until its reader has ended
		}
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		assert.NoError(t, goleak.Find(leaks))
	})
	s.url = "http://" + regexp.MustCompile(`"address":"([^"]+)"`).FindStringSubmatch(s.line(t, `"msg":"listening"`))[1]
	return s
}

func notifications(t *testing.T, dir string, to chan<- string) *net.UnixConn {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: filepath.Join(dir, "notify")})
	require.NoError(t, err)
	go func() {
		defer close(to)
		buf := make([]byte, 4096)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			to <- string(buf[:n])
		}
	}()
	return conn
}

// line waits for a line on standard error.
func (s *service) line(t *testing.T, part string) string {
	t.Helper()
	return until(t, s.stderr.lines, part, func(string) {})
}

// until takes strings until one holds part, and shows each to see.
func until(t *testing.T, from <-chan string, part string, see func(string)) string {
	t.Helper()
	limit := time.After(bound)
	for {
		select {
		case text := <-from:
			see(text)
			if strings.Contains(text, part) {
				return text
			}
		case <-limit:
			require.FailNow(t, "never saw "+part)
		}
	}
}

// note waits for a notification and returns it.
func (s *service) note(t *testing.T, part string) string {
	t.Helper()
	return until(t, s.notes, part, func(note string) { s.seen = append(s.seen, note) })
}

// ended waits for the end of the daemon and returns its exit status. All
// notifications are in seen then.
func (s *service) ended(t *testing.T) int {
	t.Helper()
	status := received(t, s.status)
	s.status = nil
	conn, err := net.DialUnix("unixgram", nil, s.socket)
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("the end"))
	require.NoError(t, err)
	s.note(t, "the end")
	return status
}

// worker puts a fake worker where the daemon looks for it.
func (s *service) worker(t *testing.T, srv *appservertest.Server) {
	t.Helper()
	require.NoError(t, os.Symlink(appservertest.Start(t, srv), filepath.Join(s.dir, "default.sock")))
}

func (s *service) chat(t *testing.T) (*http.Response, error) {
	t.Helper()
	body := `{"model":"demo","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(req)
}

func (s *service) readyz(t *testing.T) int {
	t.Helper()
	resp, err := http.Get(s.url + "/readyz")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

func TestReadyOnlyAfterTheHandshake(t *testing.T) {
	asked, answer := make(chan struct{}, 100), make(chan struct{})
	s := serving(t)
	assert.Equal(t, http.StatusServiceUnavailable, s.readyz(t))
	s.worker(t, &appservertest.Server{Faults: hold("model/list", asked, answer)})
	received(t, asked)
	assert.Equal(t, http.StatusServiceUnavailable, s.readyz(t))
	close(answer)
	note := s.note(t, "READY=1")
	assert.Contains(t, note, "STATUS=Ready: 1 of 1 workers")
	assert.Equal(t, http.StatusOK, s.readyz(t))
	for _, earlier := range s.seen[:len(s.seen)-1] {
		assert.Contains(t, earlier, "STATUS=Not ready: ", "the wait is explained")
	}
	assert.Contains(t, s.line(t, `"readiness":"true"`), `"reason":"ready","elapsed_ms":`)
	s.stop()
	assert.Equal(t, exitOK, s.ended(t))
	assert.Equal(t, 1, strings.Count(s.stderr.String(), "no system bus here: readiness follows the handshake alone"), "said once")
}

func TestReadyWithoutAWorkerSaysWhy(t *testing.T) {
	s := serving(t, "start_timeout=50ms")
	note := s.note(t, "READY=1")
	assert.Contains(t, note, "STATUS=Not ready: worker default: handshake_pending")
	assert.Equal(t, http.StatusServiceUnavailable, s.readyz(t))

	s.worker(t, &appservertest.Server{})
	s.note(t, "STATUS=Ready: 1 of 1 workers")
	assert.Equal(t, http.StatusOK, s.readyz(t))
}

func TestSigtermDrains(t *testing.T) {
	gate := make(chan struct{})
	s := serving(t)
	s.worker(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		m := turn.Begin("")
		m.Delta("first")
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
		m.Delta("last")
		m.End()
		return nil
	}})
	s.note(t, "READY=1")
	resp, err := s.chat(t)
	require.NoError(t, err)
	defer resp.Body.Close()
	body := bufio.NewReader(resp.Body)
	_, err = body.ReadString('\n')
	require.NoError(t, err)

	before := len(s.seen)
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	s.note(t, "STOPPING=1")
	for _, note := range s.seen[before : len(s.seen)-1] {
		assert.NotContains(t, note, "Stopping", "STOPPING=1 comes first: %q", note)
	}
	s.note(t, "EXTEND_TIMEOUT_USEC=")
	s.line(t, `"readiness":"false"`)
	assert.Equal(t, http.StatusServiceUnavailable, s.readyz(t))
	refused, err := s.chat(t)
	require.NoError(t, err)
	defer refused.Body.Close()
	assert.Equal(t, http.StatusServiceUnavailable, refused.StatusCode)

	close(gate)
	rest, err := io.ReadAll(body)
	require.NoError(t, err)
	assert.Contains(t, string(rest), "last")
	assert.True(t, strings.HasSuffix(string(rest), "data: [DONE]\n\n"), "%s", rest)
	assert.Equal(t, exitOK, s.ended(t))
	s.neverReadyAfterStopping(t)
}

// A request whose body still comes when the service is stopped has no turn, and is
// answered nevertheless.
func TestSigtermAwaitsBodies(t *testing.T) {
	s := serving(t)
	s.worker(t, &appservertest.Server{})
	s.note(t, "READY=1")
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(bound)))
	const body = `{"model":"demo","messages":[{"role":"user","content":"hi"}]}`
	_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\nExpect: 100-continue\r\n\r\n", len(body))
	require.NoError(t, err)
	answer := bufio.NewReader(conn)
	awaited, err := answer.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, awaited, "100 Continue", "its body is being read")
	_, err = answer.ReadString('\n')
	require.NoError(t, err)

	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	s.note(t, "STATUS=Stopping: 1 requests to answer")
	refused, err := s.chat(t)
	require.NoError(t, err)
	defer refused.Body.Close()
	assert.Equal(t, http.StatusServiceUnavailable, refused.StatusCode)

	_, err = io.WriteString(conn, body)
	require.NoError(t, err)
	resp, err := http.ReadResponse(answer, nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Contains(t, string(text), `"code":"draining"`)
	assert.Equal(t, exitOK, s.ended(t))
}

func TestDrainTimeoutEndsTurnsWithAnError(t *testing.T) {
	s := serving(t, "drain_timeout=50ms")
	s.worker(t, &appservertest.Server{Handler: appservertest.Hang("first")})
	s.note(t, "READY=1")
	resp, err := s.chat(t)
	require.NoError(t, err)
	defer resp.Body.Close()
	s.stop()
	rest, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Contains(t, string(rest), `"code":"draining"`)
	assert.NotContains(t, string(rest), "[DONE]")
	assert.Equal(t, exitOK, s.ended(t))
	assert.Contains(t, s.stderr.String(), "turns in flight are cut off")
}

// A stop during the start: the worker that comes in between changes nothing.
func TestNoReadyAfterStopping(t *testing.T) {
	asked, answer := make(chan struct{}, 100), make(chan struct{})
	s := serving(t)
	s.worker(t, &appservertest.Server{Faults: hold("model/list", asked, answer)})
	received(t, asked)
	s.stop()
	close(answer)
	assert.Equal(t, exitOK, s.ended(t))
	s.neverReadyAfterStopping(t)
}

func (s *service) neverReadyAfterStopping(t *testing.T) {
	t.Helper()
	stopping := slices.IndexFunc(s.seen, func(note string) bool { return strings.HasPrefix(note, "STOPPING=1") })
	require.GreaterOrEqual(t, stopping, 0, "%q", s.seen)
	for _, note := range s.seen[stopping:] {
		assert.NotContains(t, note, "READY=1")
		assert.NotContains(t, note, "WATCHDOG=1")
	}
}

func TestExposedWithoutKeys(t *testing.T) {
	path := configured(t, "")
	got := try(t, "serve", "--config", path, "--set", "listen=0.0.0.0:0")
	assert.Equal(t, exitConfig, got.status, "trying again does not mend it")
	assert.Contains(t, got.stderr, "without API keys: anyone could use it; run `codex-proxy keys add NAME`")

	file := filepath.Join(t.TempDir(), "api-keys")
	require.Zero(t, try(t, "keys", "add", "alice", "--file", file).status)
	s := serving(t, "listen=0.0.0.0:0", "api_keys="+file)
	s.url = strings.Replace(s.url, "[::]", "127.0.0.1", 1)
	resp, err := s.chat(t)
	require.NoError(t, err)
	defer resp.Body.Close()
	assert.Equal(t, http.StatusUnauthorized, resp.StatusCode)
}

func TestAddressInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	got := try(t, "serve", "--config", configured(t, ""), "--set", "listen="+l.Addr().String())
	assert.Equal(t, exitFailure, got.status)
	assert.Contains(t, got.stderr, "cannot listen: ")
}
