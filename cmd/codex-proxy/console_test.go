package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/console/launch"
	"codex-proxy/console/push"
	"codex-proxy/daemon/operators"
	"codex-proxy/workers/control"
)

// browser talks to a console as its page does.
type browser struct {
	url, session string
}

// openConsole runs the command until the test ends, and opens its link.
func openConsole(t *testing.T, args ...string) *browser {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	var stderr bytes.Buffer
	status := make(chan int, 1)
	go func() {
		status <- run(ctx, append([]string{"console", "--port=0"}, args...), in, &stderr)
		_ = in.Close()
	}()
	t.Cleanup(func() {
		cancel()
		assert.Zero(t, received(t, status), "Ctrl-C is no failure: %s", &stderr)
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	link := regexp.MustCompile(`^(http://127\.0\.0\.1:\d+)/#([\w-]{32})\n$`).FindStringSubmatch(line)
	require.Len(t, link, 3, line)
	b := &browser{url: link[1]}
	var given struct{ Session string }
	require.Equal(t, http.StatusOK, b.post(t, "/api/session", map[string]string{"token": link[2]}, &given))
	b.session = given.Session
	assert.Equal(t, http.StatusForbidden, b.post(t, "/api/session", map[string]string{"token": link[2]}, &given))
	return b
}

func (b *browser) post(t *testing.T, path string, body, answer any) int {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+path, bytes.NewReader(text))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+b.session)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	require.NoError(t, json.NewDecoder(res.Body).Decode(answer))
	return res.StatusCode
}

func (b *browser) order(t *testing.T, verb string, words map[string]string) (status int, answer map[string]any) {
	t.Helper()
	status = b.post(t, "/api/do", map[string]any{"verb": verb, "words": words}, &answer)
	return status, answer
}

// watch returns the lines of the stream.
func (b *browser) watch(t *testing.T) <-chan operators.Event {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+"/api/watch", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+b.session)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode)
	events := make(chan operators.Event, roomy)
	go func() {
		defer close(events)
		defer res.Body.Close()
		for from := json.NewDecoder(res.Body); ; {
			var e operators.Event
			if from.Decode(&e) != nil {
				return
			}
			events <- e
		}
	}()
	return events
}

// The console is a process of its own without rights; it shows changes, and drains.
func TestConsole(t *testing.T) {
	socket := filepath.Join(shortDir(t), "socket")
	s := serving(t, "control_socket="+socket)
	s.worker(t, &appservertest.Server{})
	s.note(t, "READY=1")
	b := openConsole(t, "--socket", socket)
	page, err := http.Get(b.url + "/")
	require.NoError(t, err)
	text, err := io.ReadAll(page.Body)
	require.NoError(t, err)
	require.NoError(t, page.Body.Close())
	assert.Contains(t, string(text), `<script type="module" src="app.js">`)

	events := b.watch(t)
	first := received(t, events)
	assert.True(t, first.Whole)
	assert.True(t, first.Status.OK)
	status, _ := b.order(t, "drain", map[string]string{"worker": "default"})
	require.Equal(t, http.StatusOK, status)
	for e := range events {
		if e.Status != nil && e.Status.Workers[0].Drained {
			break
		}
	}
	status, answer := b.order(t, "drain", map[string]string{"worker": "other"})
	assert.Equal(t, http.StatusUnprocessableEntity, status)
	assert.Equal(t, `no such worker: "other"; there are default`, answer["error"])
	status, answer = b.order(t, "usage", map[string]string{"since": "7d", "by": "hour,key"})
	assert.Equal(t, http.StatusUnprocessableEntity, status, answer)

	for _, verb := range []string{"add", "revoke"} { // of the service at the socket, and not of the one of config.toml
		status, answer = b.order(t, verb, map[string]string{"key": "alice"})
		assert.Equal(t, http.StatusUnprocessableEntity, status)
		assert.Contains(t, answer["error"], "a console with --socket changes no keys")
	}

	server := childOf(t, launch.Command)
	assert.Contains(t, server, "CapEff:\t0000000000000000\n")
	assert.Contains(t, server, "CapPrm:\t0000000000000000\n")
	assert.Contains(t, server, "NoNewPrivs:\t1\n")
	if os.Geteuid() == 0 {
		assert.Contains(t, server, "Uid:\t65534\t65534\t65534\t65534\n")
	}
}

// childOf is /proc/PID/status of the child of this process with that command.
func childOf(t *testing.T, command string) string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/status")
	require.NoError(t, err)
	for _, file := range files {
		text, _ := os.ReadFile(file)                                         // it may have ended
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline")) // likewise
		ours := strings.Contains(string(text), "PPid:\t"+strconv.Itoa(os.Getpid())+"\n")
		if ours && strings.HasSuffix(string(line), "\x00"+command+"\x00") {
			return string(text)
		}
	}
	require.Fail(t, "there is no such child")
	return ""
}

func TestConsoleThatOnlyShows(t *testing.T) {
	socket := filepath.Join(shortDir(t), "socket")
	got := try(t, "console", "--port=0", "--socket", socket)
	assert.Equal(t, exitFailure, got.status)
	assert.Contains(t, got.stderr, "codex-proxy is not running")
	s := serving(t, "control_socket="+socket)
	s.worker(t, &appservertest.Server{})
	s.note(t, "READY=1")
	b := openConsole(t, "--read-only", "--socket", socket)
	assert.True(t, received(t, b.watch(t)).Status.OK)
	status, answer := b.order(t, "drain", map[string]string{"worker": "default"})
	assert.Equal(t, http.StatusUnprocessableEntity, status)
	assert.Equal(t, "this console only shows: it was started with --read-only", answer["error"])
	assert.True(t, strings.HasPrefix(try(t, "status", "--socket", socket).stdout, "ready"))
	assert.Equal(t, exitUsage, try(t, "console", "--port=many").status)
	assert.Equal(t, exitFailure, try(t, "console-serve").status)
}

// A fault of the files of notifications leaves the rest of the page, and people and the journal are told.
func TestConsoleWithoutNotifications(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "push.json"), []byte("{"), 0o600))
	var log strings.Builder
	p := newPusher(nil, dir, &configFlags{path: filepath.Join(dir, "config.toml")}, slog.New(slog.NewTextHandler(&log, nil)))
	assert.Contains(t, log.String(), "push.json is not a file")
	for name, verb := range p.Verbs(control.ConsoleKey{}) {
		_, err := verb.Run(t.Context(), nil, nil)
		require.ErrorIs(t, err, errNoPushes, name)
	}
	require.ErrorIs(t, p.Answer(t.Context(), "token", "accept"), errNoPushes)
	p.Notice(t.Context(), push.Notice{Remote: "build", Event: "turn-ended"})
}

// The sender of a notice is asked for until a daemon that restarts is there.
func TestSenderWhileTheDaemonRestarts(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	answers := []int{http.StatusServiceUnavailable, http.StatusOK, http.StatusForbidden}
	server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(answers[0])
		answers = answers[1:]
		_, _ = io.WriteString(w, `{"remote":"build","error":"not now"}`)
	})}
	go func() {
		if conn, err := l.Accept(); err == nil { // of the daemon before
			_ = conn.Close()
		}
		_ = server.Serve(l)
	}()
	defer server.Close()
	name, err := senderOf(t.Context(), control.NewClient(socket), 1)
	require.NoError(t, err)
	assert.Equal(t, "build", name)
	_, err = senderOf(t.Context(), control.NewClient(socket), 1)
	assert.ErrorIs(t, err, control.ErrNoRemote)
	assert.Empty(t, answers)
}
