package remotes_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"codex-proxy/remotes"
	"codex-proxy/remotes/remoteapi"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/test/codexes"
	"codex-proxy/test/modelserver"
)

// unitDir names the directory of the unit whose main process a child of the test is.
const unitDir = "REMOTES_TEST_UNIT"

func TestMain(msg *testing.M) {
	if dir := os.Getenv(unitDir); dir != "" {
		os.Exit(mainProcess(dir))
	}
	os.Exit(msg.Run())
}

// mainProcess is the main process of a unit: a manager, codex as its child, and a gate that decodes what clients send.
// The inherited file 3 is the socket of the people.
func mainProcess(dir string) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	socket := filepath.Join(dir, "s")
	binary := os.Getenv("CODEX_PROXY_TEST_CODEX")
	codex := exec.Command(binary, codexes.AppServer(binary, socket)...)
	codex.Env = append(os.Environ(), "CODEX_HOME="+filepath.Join(dir, "home"), "HOME="+filepath.Join(dir, "home"))
	codex.Dir, codex.Stderr = dir, os.Stderr
	codex.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	ended := make(chan error, 1)
	started := make(chan error, 1)
	go func() {
		// Pdeathsig fires at the end of the thread that forked: this goroutine's keeps it.
		started <- codex.Start()
		ended <- codex.Wait()
	}()
	check(<-started)
	pid := filepath.Join(dir, "codex.pid")
	check(os.WriteFile(pid+".new", fmt.Append(nil, codex.Process.Pid), 0o600))
	check(os.Rename(pid+".new", pid))
	mode := remoteconfig.Continue(os.Getenv("REMOTES_TEST_CONTINUE"))
	idle, err := time.ParseDuration(cmp.Or(os.Getenv("REMOTES_TEST_IDLE_STOP"), "0s"))
	check(err)
	m, err := remotes.New(remotes.Options{
		Name: "build", Socket: socket, State: filepath.Join(dir, "keeper"), Continue: mode, Limit: 3, IdleStop: idle,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	check(err)
	go func() { _ = m.Run(ctx) }()
	go func() {
		<-m.Resting()
		check(os.WriteFile(filepath.Join(dir, "rests"), nil, 0o600))
	}()
	go func() {
		_, err := m.Open(ctx)
		check(err)
		l, err := net.FileListener(os.NewFile(3, "remote"))
		check(err)
		g := &authProxy{k: m, codex: socket}
		_ = http.Serve(l, g) //nolint:gosec // of a test
	}()
	check(errors.Join(<-ended))
	return 1
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "unit:", err)
		os.Exit(2)
	}
}

// authProxy passes the messages of clients on to codex, as the real one does.
type authProxy struct {
	k     *remotes.Manager
	codex string
}

func (g *authProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, remoteapi.HandlerPrefix) {
		remoteapi.Handler(g.k).ServeHTTP(w, r)
		return
	}
	client, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer client.CloseNow()
	client.SetReadLimit(-1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", g.codex)
	}}
	codex, _, err := websocket.Dial(ctx, "ws://codex/rpc", &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport},
	})
	if err != nil {
		return
	}
	defer codex.CloseNow()
	codex.SetReadLimit(-1)
	defer g.k.Attach(remotes.Client{User: "tester"})()
	var both sync.WaitGroup
	both.Go(func() { defer cancel(); pass(ctx, codex, client, func([]byte) {}) })
	both.Go(func() {
		defer cancel()
		defer g.k.AwaitSubscribed(ctx)
		pass(ctx, client, codex, func(b []byte) {
			var msg struct {
				ID     json.RawMessage
				Method string
				Params json.RawMessage
			}
			if json.Unmarshal(b, &msg) == nil && remotes.Recorded(msg.Method) {
				g.k.RecordRequest(string(msg.ID), msg.Method, msg.Params)
			}
		})
	})
	both.Wait()
}

func pass(ctx context.Context, from, to *websocket.Conn, see func([]byte)) {
	for {
		kind, b, err := from.Read(ctx)
		if err != nil {
			return
		}
		see(b)
		if to.Write(ctx, kind, b) != nil {
			return
		}
	}
}

// unit plays systemd: it holds the socket, and starts the main process again when it ends.
type unit struct {
	t      *testing.T
	dir    string
	socket string
	models *modelserver.Server
	people *os.File
	env    []string

	mu      sync.Mutex
	cmd     *exec.Cmd
	stopped bool
	done    chan struct{}
	starts  int
}

const config = `model = "gpt-5.5"
model_provider = "test"
approval_policy = "on-request"
sandbox_mode = "danger-full-access"
thread_unload_delay_secs = 0
check_for_update_on_startup = false
analytics.enabled = false
[features]
unbounded_connection_retries = false
[model_providers.test]
name = "test"
base_url = "%s/v1"
wire_api = "responses"
requires_openai_auth = false
request_max_retries = 0
stream_max_retries = 0
supports_websockets = false
`

func startUnit(t *testing.T, env ...string) *unit {
	t.Helper()
	if os.Getenv("CODEX_PROXY_TEST_CODEX") == "" {
		t.Skip("CODEX_PROXY_TEST_CODEX does not name a codex binary")
	}
	dir, err := os.MkdirTemp("", "remote")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	u := &unit{
		t: t, dir: dir, socket: filepath.Join(dir, "people"), models: modelserver.Start(t, "gpt-5.5"),
		env: env, done: make(chan struct{}),
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "home"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "home", "config.toml"), fmt.Appendf(nil, config, u.models.URL()), 0o600))
	l, err := net.Listen("unix", u.socket)
	require.NoError(t, err)
	u.people, err = l.(*net.UnixListener).File()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "log"), nil, 0o600))
	u.start()
	go u.restart()
	t.Cleanup(func() {
		u.mu.Lock()
		u.stopped = true
		_ = u.cmd.Process.Kill()
		u.mu.Unlock()
		<-u.done
		_ = l.Close()
		_ = u.people.Close()
		if target, err := os.Readlink(filepath.Join(dir, "s")); err == nil { // a killed codex leaves them
			_ = os.Remove(target)
			_ = os.Remove(target + ".lock")
		}
		if t.Failed() {
			log := u.log()
			t.Log(log[max(0, len(log)-12000):])
		}
	})
	return u
}

func (u *unit) start() {
	log, err := os.OpenFile(filepath.Join(u.dir, "log"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		panic(err)
	}
	defer log.Close()
	u.cmd = exec.Command(os.Args[0])
	u.cmd.Env = append(append(os.Environ(), unitDir+"="+u.dir), u.env...)
	u.cmd.Stderr, u.cmd.ExtraFiles = log, []*os.File{u.people}
	if err := u.cmd.Start(); err != nil {
		panic(err)
	}
	u.starts++
}

// restart is Restart=always with RestartSec=0.
func (u *unit) restart() {
	defer close(u.done)
	for {
		_ = u.cmd.Wait()
		u.mu.Lock()
		if u.stopped {
			u.mu.Unlock()
			return
		}
		u.start()
		u.mu.Unlock()
	}
}

// kill ends codex, its manager, or both with SIGKILL. It returns when codex has ended, which it does with its manager,
// soon.
func (u *unit) kill(what string) {
	u.t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	var codex int
	b, err := os.ReadFile(filepath.Join(u.dir, "codex.pid"))
	require.NoError(u.t, err)
	_, err = fmt.Sscan(string(b), &codex)
	require.NoError(u.t, err)
	cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", codex))
	if !bytes.Contains(cmdline, []byte(u.dir)) { // it has ended already
		codex = 0
	}
	if what != "keeper" && codex != 0 {
		_ = syscall.Kill(codex, syscall.SIGKILL)
	}
	if what != "codex" {
		_ = u.cmd.Process.Kill()
	}
	require.Eventually(u.t, func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", codex))
		return codex == 0 || err != nil || bytes.Contains(b, []byte(") Z "))
	}, 20*time.Second, time.Millisecond)
}

func bound(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// post asks the manager for something, in a body that no client of this version sends.
func (u *unit) post(path, body string) (status int) {
	u.t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", u.socket)
		}}}
	r, err := http.NewRequestWithContext(bound(u.t), http.MethodPost, "http://remote"+path, strings.NewReader(body))
	require.NoError(u.t, err)
	resp, err := client.Do(r)
	require.NoError(u.t, err)
	defer resp.Body.Close()
	return resp.StatusCode
}

// status waits until the manager's status is as wanted.
func (u *unit) status(what string, wanted func(remotes.Status) bool) remotes.Status {
	u.t.Helper()
	ctx := bound(u.t)
	for {
		short, cancel := context.WithTimeout(ctx, 20*time.Second)
		st, err := remoteapi.AskStatus(short, u.socket)
		cancel()
		if err == nil && wanted(st) {
			return st
		}
		require.NoError(u.t, ctx.Err(), "%s: %+v %v", what, st, err)
		<-time.After(5 * time.Millisecond)
	}
}

func idle(st remotes.Status) bool { return st.Codex != "" && len(st.Turns) == 0 }

// recorded waits until the turn journal has a text.
func (u *unit) recorded(text string) {
	u.t.Helper()
	ctx := bound(u.t)
	for ctx.Err() == nil {
		b, _ := os.ReadFile(filepath.Join(u.dir, "keeper", "turns.json"))
		if strings.Contains(string(b), text) {
			return
		}
		<-time.After(time.Millisecond)
	}
	require.FailNow(u.t, "the turn journal lacks "+text)
}

func (u *unit) log() string {
	b, _ := os.ReadFile(filepath.Join(u.dir, "log"))
	return string(b)
}

// written waits until codex has a file of a thread, with its first line.
func (u *unit) written(thread string) {
	u.t.Helper()
	require.Eventually(u.t, func() bool {
		files, err := filepath.Glob(filepath.Join(u.dir, "home", "sessions", "*", "*", "*", "*"+thread+"*"))
		if err != nil || len(files) != 1 {
			return false
		}
		b, err := os.ReadFile(files[0])
		return err == nil && bytes.Contains(b, []byte{'\n'})
	}, 20*time.Second, time.Millisecond)
}

func (u *unit) ledgerHas(text string) bool {
	b, _ := os.ReadFile(filepath.Join(u.dir, "keeper", "turns.json"))
	return strings.Contains(string(b), text)
}
