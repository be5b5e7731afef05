package main

import (
	"bufio"
	"context"
	"errors"
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

	"codex-proxy/proxy/appserver/appservertest"
)

// asProgram makes the test binary the program, for tests of more than one process.
const asProgram = "CODEX_PROXY_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// process starts the daemon as a process of its own, which can be reloaded.
func process(t *testing.T, settings ...string) *service {
	t.Helper()
	s := &service{dir: shortDir(t), stderr: &journalled{lines: make(chan string, 1000)}, notes: make(chan string, 1000)}
	notes := notifications(t, s.dir, s.notes)
	s.socket = notes.LocalAddr().(*net.UnixAddr)
	t.Setenv("RUNTIME_DIRECTORY", s.dir)
	args := []string{"serve", "--config", configured(t, "")}
	for _, set := range append(settings, "listen=127.0.0.1:0", "socket_dir="+s.dir, "control_socket="+filepath.Join(s.dir, "control"), "textfile=") {
		args = append(args, "--set", set)
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "NOTIFY_SOCKET="+s.socket.Name, "DBUS_SYSTEM_BUS_ADDRESS=unix:path="+filepath.Join(s.dir, "no-bus"))
	cmd.Stderr, cmd.WaitDelay = s.stderr, bound
	require.NoError(t, cmd.Start())
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

// A drain holds in the processes before a reload, too, and waits for their turns.
func TestDrainAfterReloads(t *testing.T) {
	gate := make(chan struct{})
	s := process(t)
	s.worker(t, &appservertest.Server{Handler: gated(gate)})
	s.note(t, "READY=1")
	old, err := s.chat(t)
	require.NoError(t, err)
	defer old.Body.Close()
	stream := bufio.NewReader(old.Body)
	_, err = stream.ReadString('\n')
	require.NoError(t, err)
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
