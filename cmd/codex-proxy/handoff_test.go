package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/codex/appservertest"
	"codex-proxy/console/launch"
	"codex-proxy/daemon/status"
	"codex-proxy/workers/control"
)

// asProgram makes the test binary the program, for tests of more than one process.
const asProgram = "CODEX_PROXY_TEST_PROGRAM"

func TestMain(m *testing.M) {
	// The server of the console has no environment.
	if os.Getenv(asProgram) != "" || len(os.Args) == 2 && os.Args[1] == launch.Command {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// process starts the daemon as a process of its own, which can be reloaded.
func process(t *testing.T, settings ...string) *service {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	return processOf(t, exe, settings...)
}

// processOf is process with the program at exe.
func processOf(t *testing.T, exe string, settings ...string) *service {
	t.Helper()
	s := &service{dir: shortDir(t), stderr: newJournalled(), notes: make(chan string, roomy)}
	notes := notifications(t, s.dir, s.notes)
	s.socket = notes.LocalAddr().(*net.UnixAddr)
	t.Setenv("RUNTIME_DIRECTORY", s.dir)
	s.config = configured(t, fmt.Sprintf("control_socket = %q\n", filepath.Join(s.dir, "control")))
	args := []string{"serve", "--config", s.config}
	for _, set := range append(settings, "listen=127.0.0.1:0", "socket_dir="+s.dir, "textfile=") {
		args = append(args, "--set", set)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "NOTIFY_SOCKET="+s.socket.Name, "DBUS_SYSTEM_BUS_ADDRESS=unix:path="+filepath.Join(s.dir, "no-bus"))
	cmd.Stderr, cmd.WaitDelay = s.stderr, bound
	require.NoError(t, cmd.Start())
	s.pid = cmd.Process.Pid
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // until no process has its standard error any more
		assert.NoError(t, notes.Close())
		for range s.notes { // until its reader has ended
		}
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	s.url = "http://" + regexp.MustCompile(`"address":"([^"]+)"`).FindStringSubmatch(s.line(t, `"msg":"listening"`))[1]
	return s
}

// reload hands over to a new process, which is ended with the test.
func (s *service) reload(t *testing.T) {
	t.Helper()
	got := try(t, "reload")
	require.Zero(t, got.status, got.stderr)
	pid, err := strconv.Atoi(s.note(t, "MAINPID=")[len("MAINPID="):])
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Kill(pid, unix.SIGKILL) })
	s.line(t, `"msg":"took over`)
}

// The control socket goes where the settings have it by now, or the reload fails.
func TestReloadMovesTheControlSocket(t *testing.T) {
	s := process(t)
	s.worker(t, &appservertest.Server{})
	s.note(t, "READY=1")
	name := func(path string) {
		t.Helper()
		require.NoError(t, os.WriteFile(s.config, fmt.Appendf(nil, "control_socket = %q\n", path), 0o644))
	}
	name("/proc/nowhere/socket")
	got := try(t, "reload")
	assert.Equal(t, exitFailure, got.status)
	assert.Contains(t, got.stderr, `control_socket = "/proc/nowhere/socket": `)
	assert.Zero(t, try(t, "status", "--socket", filepath.Join(s.dir, "control")).status)
	name(filepath.Join(s.dir, "elsewhere"))
	s.reload(t)
	assert.Zero(t, try(t, "status", "--socket", filepath.Join(s.dir, "elsewhere")).status)
}

// streamed is a service and the stream of a turn that ends when gate is closed.
func streamed(t *testing.T, gate <-chan struct{}) (*service, *bufio.Reader) {
	t.Helper()
	s := process(t)
	s.worker(t, &appservertest.Server{Handler: gated(gate)})
	s.note(t, "READY=1")
	old, err := s.chat(t)
	require.NoError(t, err)
	t.Cleanup(func() { old.Body.Close() })
	stream := bufio.NewReader(old.Body)
	_, err = stream.ReadString('\n')
	require.NoError(t, err)
	return s, stream
}

// A drain holds in the processes before a reload, too, and waits for their turns.
func TestDrainAfterReloads(t *testing.T) {
	gate := make(chan struct{})
	s, stream := streamed(t, gate)
	kept := &http.Client{Transport: &http.Transport{}} // a connection of its own
	defer kept.CloseIdleConnections()
	ask := func(body string) *http.Response {
		resp, err := kept.Post(s.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, errors.Join(err, resp.Body.Close()))
		return resp
	}
	require.Equal(t, http.StatusBadRequest, ask("{").StatusCode)
	s.reload(t)
	s.reload(t)

	socket := filepath.Join(s.dir, "control")
	assert.Equal(t, result{stdout: "worker default takes no new turns; 1 turn in flight\n"}, try(t, "drain", "--socket", socket))
	refused := ask(`{"model":"demo","messages":[{"role":"user","content":"hi"}]}`)
	assert.Equal(t, http.StatusServiceUnavailable, refused.StatusCode, "the first process hears of it, too")
	assert.True(t, refused.Close, "it was the first process that answered")
	got := try(t, "drain", "default", "--wait=50ms", "--socket", socket)
	assert.Equal(t, exitFailure, got.status)
	assert.Equal(t, "codex-proxy drain: 1 turn still in flight after 50ms; they go on, and the drain holds\n", got.stderr)
	waiting := make(chan result, 1)
	go func() { waiting <- try(t, "drain", "--wait=1m", "--socket", socket) }()
	s.reload(t) // ends no wait
	assert.Empty(t, waiting)
	close(gate)
	rest, err := io.ReadAll(stream)
	require.NoError(t, err)
	assert.Contains(t, string(rest), "last")
	assert.Equal(t, result{stdout: "worker default takes no new turns; 0 turns in flight\n"}, received(t, waiting))
	assert.Zero(t, try(t, "undrain", "--socket", socket).status)
}

// A worker that has gone from the settings may have turns from before the reloads,
// for which its stop waits.
func TestStopOfAWorkerThatHasGone(t *testing.T) {
	gate := make(chan struct{})
	s, stream := streamed(t, gate)

	require.NoError(t, os.Symlink(appservertest.Start(t, &appservertest.Server{}), filepath.Join(s.dir, "other.sock")))
	socket := filepath.Join(s.dir, "control")
	require.NoError(t, os.WriteFile(s.config, fmt.Appendf(nil, "workers = [\"other\"]\ncontrol_socket = %q\n", socket), 0o644))
	s.reload(t)
	s.reload(t) // now two processes have not heard of it
	got := try(t, "drain", "third", "--socket", socket)
	assert.Equal(t, "codex-proxy drain: no such worker: \"third\"; there are other\n", got.stderr)
	assert.Equal(t, result{stdout: "worker default takes no new turns; 1 turn in flight\n"}, try(t, "drain", "default", "--socket", socket))
	assert.Equal(t, result{stdout: "worker default is not drained; it has gone from config.toml, and finishes its turns from before the reload\n"},
		try(t, "undrain", "default", "--socket", socket))
	got = try(t, "drain", "--wait=50ms", "--socket", socket)
	assert.Equal(t, "worker other takes no new turns; 0 turns in flight\nworker default takes no new turns; 1 turn in flight\n", got.stdout, "of all")
	assert.Contains(t, got.stderr, "1 turn still in flight after 50ms")

	t.Setenv("INVOCATION_ID", "1")
	t.Setenv("MAINPID", "7")
	got = try(t, "drain", "default", "--stop", "--wait=50ms", "--socket", socket)
	assert.Contains(t, got.stderr, "1 turn still in flight after 50ms; they end with the worker")
	stopped := make(chan result, 1)
	go func() { stopped <- try(t, "drain", "default", "--stop", "--wait=1m", "--socket", socket) }()
	close(gate)
	rest, err := io.ReadAll(stream)
	require.NoError(t, err)
	assert.Contains(t, string(rest), "last")
	assert.Zero(t, received(t, stopped).status)
}

// A reload ends no status --watch.
func TestWatchAcrossReloads(t *testing.T) {
	s := process(t)
	s.worker(t, &appservertest.Server{})
	s.note(t, "READY=1")
	socket := filepath.Join(s.dir, "control")
	pages := make(screen, 1000)
	v := status.View{Client: control.NewClient(socket), Out: pages, JSON: true}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- v.Watch(ctx) }()
	until(t, pages, `"drained":false`, func(string) {})
	s.reload(t)
	require.Zero(t, try(t, "drain", "--socket", socket).status)
	until(t, pages, `"drained":true`, func(string) {})
	s.reload(t)
	require.Zero(t, try(t, "undrain", "--socket", socket).status)
	until(t, pages, `"drained":false`, func(string) {})
	cancel()
	assert.NoError(t, received(t, ended))
}
