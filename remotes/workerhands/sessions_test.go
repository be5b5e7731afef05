package workerhands

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

	"codex-proxy/internal/handstable"
	"codex-proxy/internal/paths"
	"codex-proxy/proxy/turn"
	"codex-proxy/runner/api/apitest"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
	"codex-proxy/runner/outcome"
	runnersession "codex-proxy/runner/session"
	"codex-proxy/units"
	"codex-proxy/workers/codexhome"
)

// enough bounds each wait for what happens soon.
const enough = 30 * time.Second

// handsBed has the unit of a worker at a codex-runner that is played, whose commands run until they are cancelled.
type handsBed struct {
	*Client
	t      *testing.T
	dir    string
	runner *client.Client
	idle   time.Duration
	rest   time.Duration

	write func(dir string, r record) error // nil: that of the package

	mu       sync.Mutex
	refuses  bool
	sessions *Sessions
	stop     func()
}

func newBed(t *testing.T) *handsBed {
	t.Helper()
	b := &handsBed{t: t, dir: t.TempDir(), idle: time.Hour, rest: time.Hour}
	d := apitest.Start(t, func(c *apitest.Command) {
		if runnersession.IsDiff(c.Asked.Args) {
			c.End(outcome.Outcome{Word: outcome.Succeeded, Text: "The command succeeded."})
			return
		}
		<-c.Cancelled()
		c.End(outcome.Outcome{Word: outcome.Cancelled, CancelledBy: "alice", ExitStatus: 130, Text: "The command was cancelled."})
	})
	b.runner = client.New(front(t, d.Socket))
	sockets, err := os.MkdirTemp("", "hands") // the path of a socket has at most 107 bytes
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(sockets) })
	b.Client = &Client{Generated: t.TempDir(), Sockets: sockets}
	t.Cleanup(func() { b.end() })
	return b
}

// front passes requests on to the player, but for those to ports: an exec-server listens on each.
func front(t *testing.T, player string) (socket string) {
	t.Helper()
	pass := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "codex-runner"})
	pass.Transport = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", player)
	}}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, "/ports/") {
			pass.ServeHTTP(w, r)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if !assert.NoError(t, err) {
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", wire.PortProtocol)
	}))
	dir, err := os.MkdirTemp("", "runner")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	s.Listener.Close()
	socket = filepath.Join(dir, "api.sock")
	s.Listener, err = net.Listen("unix", socket)
	require.NoError(t, err)
	s.Start()
	t.Cleanup(s.Close)
	return socket
}

// begin starts the unit.
func (b *handsBed) begin() {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var err error
	b.sessions, err = New(ctx, Options{Worker: "w", Dir: b.dir, Client: b.runner, Logger: slog.New(slog.DiscardHandler),
		Hands: &codexhome.Hands{Hands: handstable.Hands{Repo: "https://example.org/app", Timeout: time.Hour}, Sessions: 3,
			KeySessions: 2, Idle: b.idle},
		Program: func() (string, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.refuses {
				return "", io.ErrUnexpectedEOF
			}
			return "/usr/bin/codex", nil
		}})
	require.NoError(b.t, err)
	b.sessions.rest = b.rest
	if b.write != nil {
		b.sessions.write = b.write
	}
	daemon, err := net.Listen("unix", filepath.Join(b.Sockets, filepath.Base(paths.HandsSocket("w"))))
	require.NoError(b.t, err)
	codex, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b.t, err)
	var running sync.WaitGroup
	running.Go(func() {
		assert.NoError(b.t, (&Server{b.sessions}).Serve(ctx, []net.Listener{daemon}, []net.Listener{codex}))
	})
	running.Go(func() { b.sessions.Run(ctx) })
	b.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
}

func (b *handsBed) end() {
	if b.stop != nil {
		b.stop()
	}
}

func (b *handsBed) enter(key, name string) *turn.Stay {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), enough)
	defer cancel()
	stay, err := b.Enter(ctx, "w", turn.HandsSession{Key: key, Name: name})
	require.NoError(b.t, err)
	return stay
}

func (b *handsBed) code(err error) turn.HandsCode {
	b.t.Helper()
	var refused *turn.HandsError
	require.ErrorAs(b.t, err, &refused)
	return refused.Code
}

// until waits for a number of sessions of codex-runner that are open.
func (b *handsBed) until(open int) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		n := 0
		for _, state := range []wire.SessionState{wire.SessionActive, wire.SessionIdle} {
			all, err := b.runner.Sessions(b.t.Context(), client.Filter{State: state, Limit: 100})
			require.NoError(b.t, err)
			n += len(all)
		}
		return n == open
	}, enough, 5*time.Millisecond)
}

// places waits for a number of sessions of the worker.
func (b *handsBed) places(n int) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		b.sessions.mu.Lock()
		defer b.sessions.mu.Unlock()
		return len(b.sessions.all) == n
	}, enough, time.Millisecond)
}

func TestSessions(t *testing.T) {
	b := newBed(t)
	b.begin()
	first := b.enter("ann", "A")
	assert.True(t, first.New)
	assert.Equal(t, "hands-0 /workspace", first.Environment.ID+" "+first.Environment.Dir)
	again := b.enter("ann", "A")
	assert.True(t, again.New, "no client knows yet")
	first.Told()
	again.Leave()
	again = b.enter("ann", "A")
	assert.False(t, again.New)
	assert.Equal(t, first.Environment, again.Environment, "two turns in a session")
	other := b.enter("bob", "A")
	assert.NotEqual(t, first.Environment, other.Environment, "the name of another key")
	b.until(2)
	ofTurn := b.enter("bob", "")
	assert.False(t, ofTurn.New)

	_, err := b.Enter(t.Context(), "w", turn.HandsSession{Key: "ann", Name: "B"})
	assert.Equal(t, turn.HandsFull, b.code(err))
	ofTurn.Leave()
	b.places(2)
	b.until(2)
	b.enter("ann", "B").Leave()
	for _, stay := range []*turn.Stay{first, again, other} {
		stay.Leave()
	}
}

func TestEnds(t *testing.T) {
	b := newBed(t)
	b.begin()
	stay := b.enter("ann", "A")
	of := turn.HandsSession{Key: "ann", Name: "A"}
	assert.Equal(t, codeInUse, b.code(b.End(t.Context(), "w", of)))
	stay.Leave()
	assert.Equal(t, noSession, b.code(b.End(t.Context(), "w", turn.HandsSession{Key: "bob", Name: "A"})))
	require.Eventually(t, func() bool { return b.End(t.Context(), "w", of) == nil }, enough, time.Millisecond)
	b.until(0)
	next := b.enter("ann", "A")
	assert.True(t, next.New)
	assert.NotEqual(t, stay.Environment.URL, next.Environment.URL)
	next.Leave()
}

// An exec-server rests after its last turn, and another one starts in the same workspace, at another address.
func TestRest(t *testing.T) {
	b := newBed(t)
	b.rest = time.Millisecond
	b.begin()
	first := b.enter("ann", "A")
	first.Told()
	first.Leave()
	require.Eventually(t, func() bool {
		b.sessions.mu.Lock()
		defer b.sessions.mu.Unlock()
		one := b.sessions.all[idOf("ann", "A")]
		return one.hands == nil && one.change == nil
	}, enough, time.Millisecond)
	b.until(1)
	next := b.enter("ann", "A")
	assert.False(t, next.New)
	assert.NotEqual(t, first.Environment.URL, next.Environment.URL)
	next.Leave()
}

// Each turn begins with a new checkout until one has told its client of that.
func TestToldOfACheckout(t *testing.T) {
	b := newBed(t)
	b.begin()
	first := b.enter("ann", "A")
	first.Leave() // its turn is lost
	second := b.enter("ann", "A")
	assert.True(t, second.New)
	b.sessions.mu.Lock()
	b.sessions.all[idOf("ann", "A")].checkouts++
	b.sessions.mu.Unlock()
	second.Told()
	second.Leave()
	third := b.enter("ann", "A")
	assert.True(t, third.New, "the second turn knew of the checkout before alone")
	third.Told()
	third.Leave()
	last := b.enter("ann", "A")
	assert.False(t, last.New)
	last.Leave()
}

func TestIdle(t *testing.T) {
	b := newBed(t)
	b.idle = time.Millisecond
	b.begin()
	b.enter("ann", "A").Leave()
	b.until(0)
	require.Eventually(t, func() bool {
		left, err := os.ReadDir(b.dir)
		return err == nil && len(left) == 0
	}, enough, time.Millisecond)
	assert.True(t, b.enter("ann", "A").New)
}

// After a restart of the unit the sessions are there, at the same address, and turns that run have them again.
func TestRestart(t *testing.T) {
	b := newBed(t)
	b.begin()
	stay := b.enter("ann", "A")
	b.end()
	b.begin()
	require.Eventually(t, func() bool {
		b.sessions.mu.Lock()
		defer b.sessions.mu.Unlock()
		return b.sessions.all[idOf("ann", "A")].users == 1
	}, enough, time.Millisecond, "the turn has the session again")
	next := b.enter("ann", "A")
	assert.False(t, next.New, "the workspace is the same")
	assert.Equal(t, stay.Environment, next.Environment)
	next.Leave()
	stay.Leave()
}

func TestASessionThatDoesNotStart(t *testing.T) {
	b := newBed(t)
	b.refuses = true
	b.begin()
	_, err := b.Enter(t.Context(), "w", turn.HandsSession{Key: "ann", Name: "A"})
	assert.Equal(t, turn.HandsUnavailable, b.code(err))
	left, err := os.ReadDir(b.dir)
	require.NoError(t, err)
	assert.Empty(t, left, "it has no place")
	_, err = b.Enter(t.Context(), "none", turn.HandsSession{Key: "ann", Name: "A"})
	assert.Equal(t, turn.HandsUnavailable, b.code(err), "a unit that does not run")
}

// A file system that is busy holds up the session whose record is written, and neither others nor the watchdog.
func TestABusyFileSystem(t *testing.T) {
	b := newBed(t)
	began, release := make(chan struct{}), make(chan struct{})
	b.write = func(dir string, r record) error {
		if r.Name == "A" {
			began <- struct{}{}
			<-release
		}
		return write(dir, r)
	}
	b.begin()
	entered := make(chan *turn.Stay, 1)
	go func() {
		stay, err := b.Enter(t.Context(), "w", turn.HandsSession{Key: "ann", Name: "A"})
		assert.NoError(t, err)
		entered <- stay
	}()
	<-began
	b.enter("bob", "B").Leave()
	close(release)
	(<-entered).Leave()
}

// A unit that cannot serve costs a turn seconds, and says why.
func TestAUnitThatDoesNotServe(t *testing.T) {
	b := newBed(t)
	b.Alive = 100 * time.Millisecond
	l, err := net.Listen("unix", filepath.Join(b.Sockets, filepath.Base(paths.HandsSocket("w")))) // nobody accepts
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), enough)
	defer cancel()
	_, err = b.Enter(ctx, "w", turn.HandsSession{Key: "ann", Name: "A"})
	assert.Equal(t, turn.HandsUnavailable, b.code(err))
	assert.ErrorContains(t, err, "systemctl status codex-hands@w.service")
	_, err = b.Changes(ctx, "w", turn.HandsSession{Key: "ann", Name: "A"})
	assert.Equal(t, turn.HandsUnavailable, b.code(err))

	b.Alive = enough
	refusing, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- Refuse(refusing, "w.toml has no [hands]", []net.Listener{l}, nil) }()
	_, err = b.Enter(ctx, "w", turn.HandsSession{Key: "ann", Name: "A"})
	assert.Equal(t, turn.HandsUnavailable, b.code(err))
	assert.ErrorContains(t, err, "no [hands]")
	stop()
	assert.NoError(t, <-ended)
	_, err = b.Enter(ctx, "w", turn.HandsSession{Key: "ann", Name: "A"})
	assert.ErrorContains(t, err, "systemctl daemon-reload; systemctl restart codex-worker@w.service")
}

// Who knows no address of a session and its token gets nothing.
func TestRelayRefuses(t *testing.T) {
	b := newBed(t)
	b.begin()
	stay := b.enter("ann", "A")
	defer stay.Leave()
	at, err := url.Parse(stay.Environment.URL)
	require.NoError(t, err)
	for path, token := range map[string]string{"/x": stay.Environment.Token, at.Path: "x", "/": stay.Environment.Token} {
		r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
		r.SetPathValue("run", strings.TrimPrefix(path, "/"))
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		(&Server{b.sessions}).relay(t.Context(), w, r)
		assert.Equal(t, http.StatusNotFound, w.Code, path)
	}
}

// codex tries to reach a session that is about to end: that begins no other one.
func TestRelayOfAnEndedSession(t *testing.T) {
	b := newBed(t)
	b.begin()
	stay := b.enter("ann", "A")
	b.sessions.mu.Lock()
	one := b.sessions.all[idOf("ann", "A")]
	b.sessions.mu.Unlock()
	stay.Leave()
	require.Eventually(t, func() bool {
		return b.End(t.Context(), "w", turn.HandsSession{Key: "ann", Name: "A"}) == nil
	}, enough, time.Millisecond)
	_, err := b.sessions.serving(t.Context(), one)
	assert.Equal(t, turn.HandsUnavailable, b.code(err))
	b.until(0)
}

func TestGenerate(t *testing.T) {
	settings, dir := t.TempDir(), t.TempDir()
	const hands = "mode = \"native\"\nnetwork = \"model\"\n[hands]\nrunner = true\nrepo = \"/home/me/app\"\n"
	for name, text := range map[string]string{"w": hands, "plain": "mode = \"plain\"\n", "bad": hands + "x = 1\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(settings, name+".toml"), []byte(text), 0o600))
	}
	require.NoError(t, Generate(settings, dir))
	read := func(unit string) string {
		text, err := os.ReadFile(filepath.Join(dir, unit+".d", dropIn))
		require.NoError(t, err)
		return string(text)
	}
	assert.Contains(t, read(units.Worker("w")), "[Unit]\nRequires=codex-hands@w.socket\nWants=codex-hands@w.service\n"+
		"After=codex-hands@w.socket codex-hands@w.service\n"+
		"[Service]\nBindReadOnlyPaths=-/run/codex-hands-own/w.sock:/run/codex-worker/w/hands.sock\n"+
		"Environment=CODEX_HANDS=/run/codex-worker/w/hands.sock\nInaccessiblePaths=-/run/codex-runner\nInaccessiblePaths=-/home/me/app\n")
	assert.Contains(t, read(units.Hands("w")), "[Service]\nUser=ch-w\nSupplementaryGroups=codex-runner\n"+
		"BindReadOnlyPaths=-/home/me/app\n")
	c := NewClient(dir)
	assert.True(t, c.Of("w"))
	assert.False(t, c.Of("plain"))
	assert.False(t, c.Of("bad"))

	sockets := t.TempDir() // of workers that run with hands
	for _, name := range []string{"plain", "bad"} {
		require.NoError(t, os.WriteFile(filepath.Join(sockets, name+".sock"), nil, 0o600))
	}
	require.NoError(t, generate(settings, dir, sockets))
	assert.True(t, c.Of("bad"), "its units go on")
	assert.False(t, c.Of("plain"))
	assert.Contains(t, read(units.Worker("bad")), "Wants=codex-hands@bad.service\n")
	assert.Contains(t, read(units.Hands("bad")), "User=ch-bad\n")
}
