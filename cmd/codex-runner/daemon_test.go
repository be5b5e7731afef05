package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner"
	"codex-proxy/runner/api"
	"codex-proxy/runner/api/apitest"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/artifact"
	"codex-proxy/runner/logs"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/runnertest"
	"codex-proxy/runner/session"
	"codex-proxy/runner/store"
)

// daemon is the one of codex-runner.service, over a systemd that the test plays. Its socket stays while it restarts, as
// that of codex-runner.socket does.
type daemon struct {
	t       testing.TB
	dir     string
	socket  string
	listen  *net.UnixListener
	systemd *runnertest.Systemd
	metrics *prometheus.Registry
	stop    func()
}

func newDaemon(t testing.TB) *daemon {
	t.Helper()
	dir, err := os.MkdirTemp("", "runner") // the path of a socket has at most 107 bytes
	require.NoError(t, err)
	d := &daemon{t: t, dir: dir, socket: filepath.Join(dir, "api.sock")}
	d.systemd = runnertest.New(t, dir, filepath.Join(dir, "run"))
	d.listen, err = net.ListenUnix("unix", &net.UnixAddr{Name: d.socket})
	require.NoError(t, err)
	d.start()
	t.Cleanup(func() {
		d.stop()
		d.listen.Close()
		os.RemoveAll(dir)
	})
	return d
}

// restart ends the daemon and all of its connections, and starts another one on its files and its socket.
func (d *daemon) restart() {
	d.stop()
	d.start()
}

func (d *daemon) start() {
	t := d.t
	st, err := store.Open(t.Context(), filepath.Join(d.dir, store.FileName))
	require.NoError(t, err)
	watcher, err := logs.NewWatcher()
	require.NoError(t, err)
	logger := slog.New(slog.DiscardHandler)
	d.metrics = prometheus.NewRegistry()
	r := runner.New(runner.Settings{
		Registry: d.metrics, Version: "1.2.3", Store: st, Units: d.systemd, Watcher: watcher, StateDir: d.dir, RuntimeDir: filepath.Join(d.dir, "run"),
		Secrets: filepath.Join(d.dir, "secrets"), Logger: logger, MaxSessions: 2, MaxQueued: 2, Workspaces: 2,
		IdleTimeout: time.Hour, Retention: time.Hour,
		Limits:    runner.Limits{Default: wire.Limits{Timeout: wire.Duration(time.Minute), Output: 1 << 30}},
		Artifacts: artifact.Limits{Bytes: 1 << 20, Count: 10},
	})
	server := api.New(api.Settings{Runner: r, Version: "1.2.3", Metrics: d.metrics, Logger: logger})
	socket, err := d.listen.File() // the daemon closes its copy alone
	require.NoError(t, err)
	listener, err := net.FileListener(socket)
	require.NoError(t, err)
	socket.Close()
	judged := http.Server{Handler: apitest.Judge(t, server.Handler()), ConnContext: api.WithPeer}
	ctx, cancel := context.WithCancel(context.Background())
	_, err = r.Recover(ctx)
	require.NoError(t, err)
	var tasks sync.WaitGroup
	tasks.Go(func() { assert.NoError(t, watcher.Run(ctx)) })
	tasks.Go(func() { assert.NoError(t, r.Run(ctx)) })
	tasks.Go(func() { assert.ErrorIs(t, judged.Serve(listener), http.ErrServerClosed) })
	d.stop = func() {
		assert.NoError(t, server.Shutdown(context.Background()))
		assert.NoError(t, judged.Close())
		cancel()
		tasks.Wait()
		assert.NoError(t, st.Close())
	}
}

// until waits until the list of sessions has a text: a session is closed when its last unit has ended.
func (d *daemon) until(text string) {
	d.t.Helper()
	require.EventuallyWithT(d.t, func(c *assert.CollectT) {
		var stdout strings.Builder
		assert.Zero(c, run(d.t.Context(), []string{"sessions", "--socket", d.socket}, &stdout, io.Discard))
		assert.Contains(c, stdout.String(), text)
	}, time.Minute, 10*time.Millisecond)
}

// write writes output as the main process of the unit does.
func (d *daemon) write(u *runnertest.Unit, texts <-chan string) {
	t := d.t
	output, err := os.OpenFile(u.File(paths.Output), os.O_WRONLY, 0)
	require.NoError(t, err)
	defer output.Close()
	index, err := os.OpenFile(u.File(paths.Index), os.O_WRONLY, 0)
	require.NoError(t, err)
	defer index.Close()
	w, err := logs.NewWriter(output, index, 1<<30, nil)
	require.NoError(t, err)
	read, pipe, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	var copied sync.WaitGroup
	copied.Go(func() { assert.NoError(t, w.Copy(logs.Stdout, read)) })
	for text := range texts {
		_, err := pipe.WriteString(text)
		assert.NoError(t, err)
	}
	assert.NoError(t, pipe.Close())
	copied.Wait()
}

// reader is the standard output of a program. Each write calls a function first.
type reader struct {
	strings.Builder
	each func()
}

func (r *reader) Write(p []byte) (int, error) {
	r.each()
	return r.Builder.Write(p)
}

// The daemon starts again after each part of the output.
func TestRunOutlivesTheDaemon(t *testing.T) {
	const parts = 10
	d := newDaemon(t)
	texts := make(chan string, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		u := <-d.systemd.Started
		d.write(u, texts)
		u.End(&session.Result{Exited: true, Status: 5})
	}()
	next := func(n int) string { return fmt.Sprintf("part %d\n", n) }
	n, want, last := 1, next(0), sync.OnceFunc(func() { close(texts) })
	texts <- want
	stdout := &reader{each: func() {
		if n == parts {
			last()
			return
		}
		d.restart()
		want += next(n)
		texts <- next(n)
		n++
	}}
	var stderr strings.Builder
	status := run(t.Context(), []string{"run", "--socket", d.socket, "--", "sh"}, stdout, &stderr)
	last()
	<-ended
	assert.Equal(t, 5, status, stderr.String())
	assert.Equal(t, want, stdout.String())
	assert.Equal(t, 1, strings.Count(stderr.String(), "the connection to codex-runner was lost: "))
	d.until("  closed  1         failed (5)  ")
}

// Ctrl-C cancels the command, whose last words come.
func TestCtrlC(t *testing.T) {
	d := newDaemon(t)
	texts := make(chan string, 1)
	texts <- "first\n"
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		u := <-d.systemd.Started
		d.write(u, texts)
		u.End(&session.Result{Exited: true, Signal: 15, Cause: session.Cancelled, CancelledBy: <-u.Cancels})
	}()
	last := sync.OnceFunc(func() {
		texts <- "last words\n"
		close(texts)
	})
	interrupt := sync.OnceFunc(func() { assert.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGINT)) })
	stdout := &reader{each: func() {
		interrupt()
		last()
	}}
	var stderr strings.Builder
	status := run(t.Context(), []string{"run", "--socket", d.socket, "--", "sh"}, stdout, &stderr)
	last()
	<-ended
	assert.Equal(t, 130, status)
	assert.Equal(t, "first\nlast words\n", stdout.String())
	assert.Regexp(t, `^cancelling the command; again to leave it alone
codex-runner run: The command was cancelled by .*\.
$`, stderr.String())
}

func TestCommandsOfTheDaemon(t *testing.T) {
	d := newDaemon(t)
	got := try(t, "run", "--socket", d.socket, "--dry-run", "--memory", "1G", "--", "make", "test")
	assert.Equal(t, 0, got.status, got.stderr)
	assert.Contains(t, got.stdout, "an instance of codex-session@.service")
	assert.Contains(t, got.stdout, "make test")

	got = try(t, "run", "--socket", d.socket, "--detach", "--stdin", "/dev/null", "--", "make")
	require.Equal(t, 0, got.status, got.stderr)
	id := strings.TrimSpace(got.stdout)
	u := <-d.systemd.Started
	assert.Equal(t, result{}, try(t, "cancel", id, "--socket", d.socket))
	by := <-u.Cancels
	u.End(&session.Result{Exited: true, Signal: 15, Cause: session.Cancelled, CancelledBy: by})
	assert.Equal(t, result{}, try(t, "logs", "-f", id, "--socket", d.socket))
	assert.Contains(t, try(t, "show", id, "--socket", d.socket).stdout, "The command was cancelled by "+by)
	d.until("  closed  ")
	got = try(t, "run", "--socket", d.socket, "--session", id, "--json", "--", "make")
	assert.Equal(t, 125, got.status)
	assert.Contains(t, got.stdout, `{"error":{"code":"conflict",`)
	assert.Contains(t, try(t, "prune", "--older-than", "1ns", "--socket", d.socket).stdout, id)
	assert.Contains(t, try(t, "status", "--socket", d.socket).stdout, "ready, version 1.2.3")
}

func TestArtifactsOfTheDaemon(t *testing.T) {
	d := newDaemon(t)
	got := try(t, "run", "--socket", d.socket, "--detach", "--artifact", "*.xml", "--", "make")
	require.Equal(t, 0, got.status, got.stderr)
	id := strings.TrimSpace(got.stdout)
	u := <-d.systemd.Started
	archive := `{"path":"report.xml","bytes":11}` + "\n<testsuite>"
	require.NoError(t, os.WriteFile(u.File(paths.Artifacts), []byte(archive), 0o600))
	u.End(&session.Result{Exited: true, Status: 1, ArtifactsFault: "files not kept: 1"})
	assert.Equal(t, result{}, try(t, "logs", "-f", id, "--socket", d.socket))
	got = try(t, "artifacts", id, "--socket", d.socket)
	assert.Contains(t, got.stdout, "report.xml")
	assert.Contains(t, got.stdout, "junit")
	dir := t.TempDir()
	got = try(t, "artifacts", id, "--socket", d.socket, "--save", dir)
	assert.Equal(t, 0, got.status, got.stderr)
	text, err := os.ReadFile(filepath.Join(dir, "1", "report.xml"))
	require.NoError(t, err)
	assert.Equal(t, "<testsuite>", string(text))
}

// BenchmarkRun is the part of the client and the daemon in the time of a command.
func BenchmarkRun(b *testing.B) {
	d := newDaemon(b)
	var units sync.WaitGroup
	b.Cleanup(units.Wait)
	for b.Loop() {
		units.Go(func() { (<-d.systemd.Started).End(&session.Result{Exited: true}) })
		require.Zero(b, run(b.Context(), []string{"run", "--socket", d.socket, "true"}, io.Discard, io.Discard))
	}
}

// BenchmarkLogs prints 64 MiB of output that is there.
func BenchmarkLogs(b *testing.B) {
	const size = 64 << 20
	d := newDaemon(b)
	var stdout strings.Builder
	require.Zero(b, run(b.Context(), []string{"run", "--socket", d.socket, "--detach", "sh"}, &stdout, io.Discard))
	u := <-d.systemd.Started
	texts := make(chan string)
	go func() {
		defer close(texts)
		for range size >> 16 {
			texts <- strings.Repeat("x", 1<<16)
		}
	}()
	d.write(u, texts)
	u.End(&session.Result{Exited: true, Bytes: size})
	b.SetBytes(size)
	for b.Loop() {
		var got count
		require.Zero(b, run(b.Context(), []string{"logs", "-f", "--socket", d.socket, strings.TrimSpace(stdout.String())}, &got, io.Discard))
		require.EqualValues(b, size, got)
	}
}

// count counts the bytes that are written to it.
type count int64

func (c *count) Write(p []byte) (int, error) {
	*c += count(len(p))
	return len(p), nil
}
