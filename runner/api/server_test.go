package api_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner"
	"codex-proxy/runner/api"
	"codex-proxy/runner/api/apitest"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/logs"
	"codex-proxy/runner/outcome"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/runnertest"
	"codex-proxy/runner/session"
	"codex-proxy/runner/store"
)

// patience bounds every wait for an event.
const patience = time.Minute

// bed is a daemon on a socket, whose answers the OpenAPI document judges.
type bed struct {
	t       *testing.T
	systemd *runnertest.Systemd
	client  *http.Client
	server  *api.Server
}

func newBed(t *testing.T, admins ...string) *bed {
	t.Helper()
	dir, err := os.MkdirTemp("", "api")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	b := &bed{t: t, systemd: runnertest.New(t, dir, filepath.Join(dir, "run"))}
	st, err := store.Open(t.Context(), filepath.Join(dir, store.FileName))
	require.NoError(t, err)
	watcher, err := logs.NewWatcher()
	require.NoError(t, err)
	logger, registry := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	r := runner.New(runner.Settings{
		Registry: registry, Store: st, Units: b.systemd, Watcher: watcher, StateDir: dir, RuntimeDir: filepath.Join(dir, "run"),
		Secrets: filepath.Join(dir, "secrets"), Logger: logger, MaxSessions: 1, MaxQueued: 2, Workspaces: 2,
		IdleTimeout: time.Hour, Retention: time.Hour, Network: true,
		Limits: runner.Limits{Default: wire.Limits{Timeout: wire.Duration(time.Minute), Output: 1 << 20}},
	})
	b.server = api.New(api.Settings{
		Runner: r, Version: "1.2.3", Admins: admins, Metrics: registry, Logger: logger,
	})
	listener, err := net.Listen("unix", filepath.Join(dir, "api.sock"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var tasks sync.WaitGroup
	tasks.Go(func() { assert.NoError(t, watcher.Run(ctx)) })
	tasks.Go(func() { assert.NoError(t, r.Run(ctx)) })
	judged := http.Server{Handler: apitest.Judge(t, b.server.Handler()), ConnContext: api.WithPeer}
	tasks.Go(func() { assert.Equal(t, http.ErrServerClosed, judged.Serve(listener)) })
	b.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", listener.Addr().String())
	}}}
	t.Cleanup(func() {
		b.client.CloseIdleConnections()
		assert.NoError(t, b.server.Shutdown(context.Background()))
		assert.NoError(t, judged.Close())
		cancel()
		tasks.Wait()
		assert.NoError(t, st.Close())
	})
	return b
}

// send sends a request and returns the status and the body.
func (b *bed) send(method, path, body string) (int, string) {
	b.t.Helper()
	var from io.Reader
	if body != "" {
		from = strings.NewReader(body)
	}
	request, err := http.NewRequestWithContext(b.t.Context(), method, "http://codex-runner"+path, from)
	require.NoError(b.t, err)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if strings.HasSuffix(path, "/stdin") {
		request.Header.Set("Content-Type", "application/octet-stream")
	}
	answer, err := b.client.Do(request)
	require.NoError(b.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(b.t, err)
	return answer.StatusCode, string(text)
}

// create makes a session.
func (b *bed) create(body string) wire.Session {
	b.t.Helper()
	status, text := b.send("POST", "/v1/sessions", body)
	require.Equal(b.t, http.StatusCreated, status, text)
	var s wire.Session
	require.NoError(b.t, json.Unmarshal([]byte(text), &s))
	return s
}

func (b *bed) started() *runnertest.Unit {
	b.t.Helper()
	select {
	case u := <-b.systemd.Started:
		return u
	case <-time.After(patience):
		require.FailNow(b.t, "no unit was started")
		return nil
	}
}

// write opens the log of a unit's command for writing.
func (b *bed) write(u *runnertest.Unit) (*logs.Writer, func()) {
	b.t.Helper()
	output, err := os.OpenFile(u.File(paths.Output), os.O_WRONLY, 0)
	require.NoError(b.t, err)
	index, err := os.OpenFile(u.File(paths.Index), os.O_WRONLY, 0)
	require.NoError(b.t, err)
	w, err := logs.NewWriter(output, index, 1<<20, nil)
	require.NoError(b.t, err)
	return w, func() { output.Close(); index.Close() }
}

func (b *bed) print(w *logs.Writer, stream logs.Stream, text string) {
	b.t.Helper()
	read, pipe, err := os.Pipe()
	require.NoError(b.t, err)
	_, err = pipe.WriteString(text)
	require.NoError(b.t, err)
	require.NoError(b.t, pipe.Close())
	require.NoError(b.t, w.Copy(stream, read))
	read.Close()
}

// me is the name of the tests' user, for a list of admins; empty for a user that has none.
func me(t *testing.T) string {
	t.Helper()
	u, err := user.Current()
	require.NoError(t, err)
	return u.Username
}

const truly = `{"commands":[{"args":["true"]}]}`

func TestSessions(t *testing.T) {
	b := newBed(t, me(t))
	s := b.create(`{"commands":[{"args":["cat"],"stdin":true}]}`)
	assert.EqualValues(t, os.Getuid(), s.Owner.UID)
	assert.Equal(t, wire.CommandAwaitingStdin, s.Commands[0].State)
	path := "/v1/sessions/" + s.ID
	status, text := b.send("PUT", path+"/commands/1/stdin", "input")
	assert.Equal(t, http.StatusOK, status, text)
	u := b.started()
	status, text = b.send("POST", path+"/commands", `{"args":["next"]}`)
	assert.Equal(t, http.StatusCreated, status, text)
	status, text = b.send("POST", path+"/cancel", `{"command":2}`)
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, text, `"outcome":"cancelled"`)
	u.End(&session.Result{Exited: true})
	status, text = b.send("GET", path+"/commands/1/logs?follow=true", "")
	assert.Equal(t, http.StatusOK, status)
	assert.Empty(t, text)
	status, text = b.send("GET", path+"/commands/1", "")
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, text, `"outcome":"succeeded"`)
	for _, path := range []string{path, "/v1/sessions?all=true&state=idle&limit=1", "/v1/status", "/metrics"} {
		status, text = b.send("GET", path, "")
		assert.Equal(t, http.StatusOK, status, text)
	}
	status, text = b.send("GET", "/v1/openapi.yaml", "")
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, string(wire.Document()), text)
	status, text = b.send("POST", path+"/cancel", `{}`)
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, text, `"state":"closed"`)
	status, text = b.send("POST", "/v1/prune", `{"older_than":"1ns"}`)
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, text, s.ID)
	status, text = b.send("POST", "/v1/sessions", `{"dry_run":true,"commands":[{"args":["true"]}]}`)
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, text, `"unit":"codex-session@.service"`)
}

func TestErrors(t *testing.T) {
	b := newBed(t)
	for range 3 {
		b.create(truly)
	}
	const unknown = "/v1/sessions/aaaaaaaaaaaaaaaa"
	for _, c := range []struct {
		method, path, body string
		code               wire.Code
	}{
		{"POST", "/v1/sessions", truly, wire.QueueFull},
		{"GET", unknown, "", wire.NotFound},
		{"GET", unknown + "/commands/1", "", wire.NotFound},
		{"GET", unknown + "/commands/1/logs", "", wire.NotFound},
		{"POST", unknown + "/cancel", "{}", wire.NotFound},
		{"POST", unknown + "/commands", `{"args":["a"]}`, wire.NotFound},
		{"POST", "/v1/sessions", `{"commands":[{"args":["a"],"directory":"/x"}]}`, wire.InvalidRequest},
		{"POST", unknown + "/shell", "", wire.InvalidRequest},
		{"GET", "/v1/sessions?before=!", "", wire.InvalidRequest},
	} {
		status, text := b.send(c.method, c.path, c.body)
		assert.Equal(t, c.code.Status(), status, c.path)
		var f wire.Failure
		require.NoError(t, json.Unmarshal([]byte(text), &f))
		assert.Equal(t, c.code, f.Error.Code, text)
		assert.NotEmpty(t, f.Error.Remedy, text)
	}
}

// A log is followed from its beginning, over two streams, to the end of the command.
func TestLogForms(t *testing.T) {
	b := newBed(t)
	s := b.create(truly)
	path := "/v1/sessions/" + s.ID + "/commands/1/logs"
	follow := func(accept, query string) *http.Response {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://codex-runner"+path+query, nil)
		require.NoError(t, err)
		request.Header.Set("Accept", accept)
		answer, err := b.client.Do(request)
		require.NoError(t, err)
		return answer
	}
	conn, _, err := websocket.Dial(t.Context(), "http://codex-runner"+path+"?follow=true&since_offset=1",
		&websocket.DialOptions{HTTPClient: b.client})
	require.NoError(t, err)
	defer conn.CloseNow()
	lines := follow("text/event-stream", "?follow=true")
	defer lines.Body.Close()
	raw := follow("", "?follow=true&since_offset=2")
	defer raw.Body.Close()

	u := b.started()
	w, closeLog := b.write(u)
	defer closeLog()
	b.print(w, logs.Stdout, "one\n")
	first := make([]byte, 2)
	_, err = io.ReadFull(raw.Body, first)
	require.NoError(t, err)
	assert.Equal(t, "e\n", string(first), "it comes while the command runs")
	b.print(w, logs.Stderr, "\xff")
	u.End(&session.Result{Exited: true, Status: 3, Bytes: 5})

	rest, err := io.ReadAll(raw.Body)
	require.NoError(t, err)
	assert.Equal(t, "\xff", string(rest))
	text, err := io.ReadAll(lines.Body)
	require.NoError(t, err)
	assert.Contains(t, string(text), "event: line\nid: 4\ndata: {")
	assert.Contains(t, string(text), `"stream":"stdout","offset":0,"text":"one","newline":true}`)
	assert.Contains(t, string(text), `"stream":"stderr","offset":4,"bytes":"/w==","newline":false}`)
	assert.Contains(t, string(text), "event: end\nid: 5\ndata: {\"offset\":5,\"command\":{\"number\":1,\"state\":\"ended\"")

	var got []byte
	for {
		kind, message, err := conn.Read(t.Context())
		require.NoError(t, err)
		if kind == websocket.MessageText {
			var end wire.LogEnd
			require.NoError(t, json.Unmarshal(message, &end))
			assert.Equal(t, outcome.Failed, end.Command.Outcome.Word)
			break
		}
		chunk, err := wire.ParseChunk(message)
		require.NoError(t, err)
		assert.EqualValues(t, 1+len(got), chunk.Offset)
		got = append(got, chunk.Data...)
	}
	assert.Equal(t, "ne\n\xff", string(got))
	_, _, err = conn.Read(t.Context())
	assert.Equal(t, websocket.StatusNormalClosure, websocket.CloseStatus(err))
}

// A follower of a command that waits is cut off when the server stops, so that it does not take that for the end.
func TestShutdownEndsFollowers(t *testing.T) {
	b := newBed(t)
	s := b.create(truly)
	b.started()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		"http://codex-runner/v1/sessions/"+s.ID+"/commands/1/logs?follow=true", nil)
	require.NoError(t, err)
	answer, err := b.client.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.NoError(t, b.server.Shutdown(t.Context()))
	_, err = io.ReadAll(answer.Body)
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
}
