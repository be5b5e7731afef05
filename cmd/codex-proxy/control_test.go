package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/daemon/apikeys"
	"codex-proxy/daemon/status"
	"codex-proxy/internal/cli"
	"codex-proxy/internal/paths"
	"codex-proxy/workers/control"
)

func TestControlCommandLines(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"drain", "a", "b"}, `unexpected "b"`},
		{[]string{"drain", "--stop"}, "--stop wants one WORKER"},
		{[]string{"drain", "--wait=soon"}, "--help"},
		{[]string{"drain", "--wait=-1s"}, "codex-proxy drain: --wait=-1s: the timeout must be a time such as 30s or 5m; leave --wait out"},
		{[]string{"drain", "--wait=0"}, "codex-proxy drain: --wait=0: the timeout must be"},
		{[]string{"undrain", "--wait"}, "--help"},
		{[]string{"status", "default"}, `unexpected "default"`},
	} {
		got := try(t, tc.args...)
		assert.Equal(t, exitUsage, got.status, "%q", tc.args)
		assert.Contains(t, got.stderr, tc.want)
	}
}

func TestControlSocketOfTheSettings(t *testing.T) {
	own, empty := configured(t, "control_socket = \"/srv/socket\"\n"), configured(t, "")
	bad := configured(t, "api_kees = \"/srv/keys\"\n")
	assert.Equal(t, "/srv/socket", controlSocket(own))
	assert.Equal(t, paths.ControlSocket, controlSocket(empty))
	assert.Equal(t, paths.ControlSocket, controlSocket(bad), "the service may run still")
}

func TestControlWithoutADaemon(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	for _, command := range []string{"status", "drain", "undrain"} {
		got := try(t, command, "--socket", socket)
		assert.Equal(t, exitFailure, got.status)
		assert.Equal(t, "codex-proxy "+command+": nothing listens on "+socket+": codex-proxy is not running (systemctl start codex.target), or has its control socket elsewhere\n", got.stderr)
	}
}

// What systemd runs as ExecStop= after a crash asks nobody.
func TestDrainForStop(t *testing.T) {
	dir := shortDir(t)
	socket := filepath.Join(dir, "socket")
	t.Setenv("INVOCATION_ID", "1")
	t.Setenv("MAINPID", "7")
	assert.Zero(t, try(t, "drain", "default", "--stop", "--socket", socket).status, "there is no proxy, and so nothing to drain")

	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	accepted := make(chan struct{}, 1)
	served := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			accepted <- struct{}{}
			err = conn.Close()
		}
		served <- err
	}()
	t.Setenv("MAINPID", "")
	assert.Equal(t, result{}, try(t, "drain", "default", "--stop", "--socket", socket))
	assert.Empty(t, accepted, "a crash must not wait for the proxy")
	t.Setenv("MAINPID", "7")
	assert.Equal(t, result{}, try(t, "drain", "default", "--stop", "--socket", socket), "a proxy that dies has nothing to drain")
	received(t, accepted)
	require.NoError(t, received(t, served))
	require.NoError(t, l.Close())
}

// A reload answers a drain early; the new process is asked again.
func TestDrainOutlivesAReload(t *testing.T) {
	socket := filepath.Join(shortDir(t), "socket")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	answers := make(chan string, 4)
	for range 2 {
		answers <- `{"workers":[{"name":"default","inflight":1}]}`
		answers <- `{"workers":[{"name":"default","inflight":0}]}`
	}
	server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, <-answers) })}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Setenv("INVOCATION_ID", "1")
	t.Setenv("MAINPID", "7")
	assert.Equal(t, result{}, try(t, "drain", "default", "--stop", "--wait=1m", "--socket", socket))
	assert.Len(t, answers, 2, "asked once")
	assert.Equal(t, result{stdout: "worker default takes no new turns; 0 turns in flight\n"}, try(t, "drain", "default", "--wait=1m", "--socket", socket))
	assert.Empty(t, answers, "asked once")
	require.NoError(t, server.Close())
	assert.ErrorIs(t, received(t, served), http.ErrServerClosed)
}

// gated answers "first", and "last" once the gate is open.
func gated(gate <-chan struct{}) appservertest.Handler {
	return func(ctx context.Context, turn *appservertest.Turn) error {
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
	}
}

// The whole way: a turn in flight, ExecStop= that waits for it and asks systemd
// for time, and the messages to systemd and to clients meanwhile.
func TestStopOfAWorkerWaitsForItsTurns(t *testing.T) {
	dir := shortDir(t)
	socket := filepath.Join(dir, "socket")
	gate := make(chan struct{})
	s := serving(t, "control_socket="+socket)
	s.worker(t, &appservertest.Server{Handler: gated(gate)})
	s.note(t, "READY=1")
	resp, err := s.chat(t)
	require.NoError(t, err)
	defer resp.Body.Close()
	body := bufio.NewReader(resp.Body)
	_, err = body.ReadString('\n')
	require.NoError(t, err)

	require.Zero(t, try(t, "drain", "--socket", socket).status)
	assert.Contains(t, s.note(t, "draining"), "STATUS=Not ready: worker default: draining, turns in flight: 1; codex-proxy undrain default")
	s.line(t, `"msg":"worker drained","worker":"default"`)

	t.Setenv("NOTIFY_SOCKET", s.socket.Name) // as systemd passes its own to ExecStop=
	t.Setenv("INVOCATION_ID", "1")
	t.Setenv("MAINPID", "7")
	stopped := make(chan result, 1)
	go func() { stopped <- try(t, "drain", "default", "--stop", "--wait=1m", "--socket", socket) }()
	s.note(t, "EXTEND_TIMEOUT_USEC=")
	close(gate)
	rest, err := io.ReadAll(body)
	require.NoError(t, err)
	assert.Contains(t, string(rest), "last")
	assert.Equal(t, result{}, received(t, stopped))
	got := try(t, "undrain", "--socket", socket)
	assert.Equal(t, "worker default is not drained; it is ready\n", got.stdout)
	s.note(t, "STATUS=Ready: 1 of 1 workers")
	info, err := os.Stat(socket)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	assert.True(t, strings.HasPrefix(try(t, "status", "--socket", socket).stdout, "ready (ready) since "))
	assert.True(t, strings.HasPrefix(try(t, "status", "--json", "--socket", socket).stdout, `{"ok":true,`))
}

// A control socket that was asked for and cannot be had is a fault of the settings.
func TestControlSocketThatCannotBeMade(t *testing.T) {
	dir := shortDir(t)
	missing := filepath.Join(dir, "missing", "socket")
	got := try(t, "serve", "--config", configured(t, ""), "--set=listen=127.0.0.1:0", "--set=socket_dir="+dir, "--set=textfile=", "--set=control_socket="+missing)
	assert.Equal(t, exitConfig, got.status)
	assert.Contains(t, got.stderr, "codex-proxy serve: control_socket = \""+missing+"\": cannot open the control socket: ")
	assert.Contains(t, got.stderr, "codex-proxy.service can write in /run/codex-proxy/control and /var/lib/codex-proxy\n")
}

// That there is none where systemd made room for it keeps nobody from being served.
func TestNoControlSocket(t *testing.T) {
	dir := shortDir(t)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "socket", "taken"), 0o755))
	t.Setenv("RUNTIME_DIRECTORY", dir)
	s := serving(t)
	s.worker(t, &appservertest.Server{})
	s.note(t, "READY=1")
	assert.Contains(t, s.stderr.String(), "codex-proxy status, drain and undrain will not work")
}

// screen takes what is written, page by page.
type screen chan string

func (s screen) Write(p []byte) (int, error) {
	s <- string(p)
	return len(p), nil
}

func TestWatchOnATerminal(t *testing.T) {
	socket := filepath.Join(shortDir(t), "socket")
	s := serving(t, "control_socket="+socket)
	s.worker(t, &appservertest.Server{})
	s.note(t, "READY=1")
	pages := make(screen, 1000)
	v := status.View{Codex: func() []string { return nil }, Client: control.NewClient(socket), Out: pages, Terminal: true, Keyless: apikeys.Keyless}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- v.Watch(ctx) }()
	drawn := func(part string) {
		t.Helper()
		assert.Equal(t, "\x1b[H\x1b[2J", received(t, pages))
		assert.Contains(t, received(t, pages), part)
	}
	drawn("ready (ready)")
	drawn("ready (ready)") // a second later, with no change
	cancel()
	assert.NoError(t, received(t, ended), "Ctrl-C is no failure")
	assert.False(t, cli.IsTerminal(pages))
}
