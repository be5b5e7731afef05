package proxy

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
	"codex-proxy/test/modelserver"
)

// Reloads without Type=notify-reload, which systemd does not have before 253, lose no
// request, no stream and no connection.
func TestReloadOnOldSystemd(t *testing.T) {
	t.Parallel()
	b := bed.New(t, "bookworm", bed.RealWorker, "")
	b.Start()
	worker := b.Codex()
	busy := startLoad(b, 8)
	var streams []*bed.Held
	for i := range 4 {
		streams = append(streams, bed.Hold(b, fmt.Sprintf("reload%d", i)))
		before := b.ProxyPID()
		b.MustRun(t, "systemctl", "reload", bed.ProxyUnit)
		assert.NotEqual(t, before, b.ProxyPID(), "the same process still serves")
		busy.reach(t, 50)
	}
	busy.end(t)
	for _, s := range streams {
		s.Finish(b)
	}
	bed.AwaitSole(b)
	assert.Equal(t, worker, b.Codex(), "the worker must not notice")
	bed.AssertSmooth(b)
}

// A reload puts the new configuration into force. If the configuration or the program is
// bad, the old process stays.
func TestReloadFails(t *testing.T) { bed.BothSuites(t, testReloadFails) }

func testReloadFails(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	require.NoError(t, b.WriteFile(bed.ConfigFile, []byte("start_timeout = \"5s\"\nbody_limit = 2048\n"), 0o644))
	long := strings.Repeat("x", 4096)
	status, _, _ := b.Chat(false, long)
	assert.Equal(t, http.StatusOK, status)
	b.MustRun(t, "systemctl", "reload", bed.ProxyUnit)
	b.HTTP.CloseIdleConnections() // an open one still belongs to the old process
	status, _, _ = b.Chat(false, long)
	assert.Equal(t, http.StatusRequestEntityTooLarge, status, "the new configuration is not in force")
	bed.AwaitSole(b)

	good, err := b.ReadFile("/usr/bin/codex-proxy")
	require.NoError(t, err)
	require.NoError(t, b.WriteFile("/usr/bin/codex-proxy.good", good, 0o755))
	main := b.OnlyProcess(bed.ProxyUnit)
	stream := bed.Hold(b, "failing")
	busy := startLoad(b, 4)
	for _, tc := range []struct {
		name, file, text, reason string
	}{
		{"configuration", bed.ConfigFile, "body_limt = 4096\n", `unknown key "body_limt" (did you mean "body_limit"?)`},
		{"workers", bed.ConfigFile, "start_timeout = \"1s\"\nworkers = [\"nobody\"]\n",
			"would not be ready, as this one is: Not ready: worker nobody"},
		{"exit", "/usr/bin/codex-proxy", "#!/bin/sh\nexit 1\n",
			"the new process ended (exit status 1) before it was ready"},
		{"hang", "/usr/bin/codex-proxy", "#!/bin/sh\nsleep 600\n", "the new process was not ready within 10s"},
		{"no program", "/usr/bin/codex-proxy", "\x00", "cannot start /usr/bin/codex-proxy: exec format error"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			kept, err := b.ReadFile(tc.file)
			require.NoError(t, err)
			replace := func(data []byte) {
				require.NoError(t, b.WriteFile("/tmp/new", data, 0o755))
				b.MustRun(t, "mv", "/tmp/new", tc.file) // as dpkg does: a running program cannot be written
			}
			replace([]byte(tc.text))
			if tc.file == bed.ConfigFile {
				_, _, err := b.Run(t.Context(), "systemctl", "reload", bed.ProxyUnit)
				assert.Error(t, err)
			}
			_, stderr, err := b.Run(t.Context(), "env", "/usr/bin/codex-proxy.good", "reload")
			assert.Error(t, err)
			assert.Contains(t, stderr, tc.reason)
			replace(kept)

			assert.Contains(t, b.UnitJournal(bed.ProxyUnit), strings.ReplaceAll(tc.reason, `"`, `\"`))
			show := b.Properties(bed.ProxyUnit, "StatusText", "ActiveState", "SubState", "NRestarts")
			assert.Contains(t, show["StatusText"], tc.reason)
			assert.Equal(t, []string{"active", "running", "0"},
				[]string{show["ActiveState"], show["SubState"], show["NRestarts"]})
			bed.AwaitSole(b) // the processes of a failed reload end after the verdict
			assert.Equal(t, main, b.OnlyProcess(bed.ProxyUnit))
		})
	}
	busy.end(t)
	stream.Finish(b)
	require.NoError(t, b.WriteFile(bed.ConfigFile, nil, 0o644))
	b.MustRun(t, "systemctl", "reload", bed.ProxyUnit)
	bed.AwaitSole(b)
	assert.NotContains(t, b.Properties(bed.ProxyUnit, "StatusText")["StatusText"], "failed")
}

func awaitStatus(b *bed.Bed, text string) {
	b.T.Helper()
	await.True(b.T, func() bool {
		return strings.Contains(b.Properties(bed.ProxyUnit, "StatusText")["StatusText"], text)
	}, bed.Bound)
}

// A restart finishes even streams of a minute; requests that come meanwhile wait.
func TestRestartOfLongStreams(t *testing.T) {
	bed.BothSuites(t, testRestartOfLongStreams)
}

func testRestartOfLongStreams(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, bed.CrowdConfig)
	b.Start()
	worker := b.Codex()
	l := bed.NewLedger()
	var clients sync.WaitGroup
	ask := func(e *bed.Entry) {
		l.Begin(e)
		clients.Go(func() { e.Ask(b.HTTPClient()); l.End(e) })
	}
	for i := range bed.CrowdSize {
		ask(&bed.Entry{ID: fmt.Sprintf("long%02d", i), Stream: true, Lasts: 59 * time.Second})
	}
	await.True(t, func() bool { return begun(l) == bed.CrowdSize }, bed.Bound)
	restarted := make(chan error, 1)
	before := b.ProxyPID()
	go func() {
		_, _, err := b.Run(t.Context(), "systemctl", "restart", bed.ProxyUnit)
		restarted <- err
	}()
	awaitStatus(b, "Stopping")
	ask(&bed.Entry{ID: "meanwhile"})
	clients.Wait()
	require.NoError(t, <-restarted)
	assert.Len(t, l.Which((*bed.Entry).Complete), bed.CrowdSize+1, "%v", l.Which(func(e *bed.Entry) bool { return !e.Complete() }))
	assert.NotEqual(t, before, b.ProxyPID())
	assert.Equal(t, worker, b.Codex(), "the worker must not notice")
	bed.AssertSmooth(b)
}

// A stop refuses new work and finishes the turns in flight, in every process and for
// longer than TimeoutStopSec=; a second SIGTERM, like the end of drain_timeout, cuts
// them off, with an error.
func TestStopDrains(t *testing.T) { bed.BothSuites(t, testStopDrains) }

func testStopDrains(t *testing.T, suite string) {
	for _, tc := range []struct {
		name, config           string
		reloaded, again, whole bool
	}{
		{name: "patient", whole: true},
		{name: "again", again: true},
		{name: "deadline", config: "drain_timeout = \"15s\"\n"},
		{name: "reloaded, patient", reloaded: true, whole: true},
		{name: "reloaded, again", reloaded: true, again: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := bed.New(t, suite, bed.RealWorker, tc.config)
			b.DropIn(bed.ProxyUnit, "test", "[Service]\nTimeoutStopSec=5s\n")
			b.Start()
			client := b.HTTPClient()
			require.NoError(t, ask(client, false, false))
			streams := []*bed.Held{bed.Hold(b, "old")}
			if tc.reloaded {
				b.MustRun(t, "systemctl", "reload", bed.ProxyUnit)
				require.NoError(t, ask(client, false, false)) // by the old process
				require.NoError(t, ask(client, false, false)) // by the new one
				streams = append(streams, bed.Hold(b, "new"))
			}
			began := time.Now()
			stopped := make(chan error, 1)
			go func() {
				_, _, err := b.Run(t.Context(), "systemctl", "stop", bed.ProxyUnit)
				stopped <- err
			}()
			awaitStatus(b, "Stopping")
			b.HTTP.CloseIdleConnections()
			assertDraining(b)
			if tc.again {
				b.MustRun(t, "systemctl", "kill", "--kill-who=main", "--signal=TERM", bed.ProxyUnit)
			}
			if tc.whole {
				bed.Pause(t.Context(), time.Until(began.Add(7*time.Second)))
			}
			for _, s := range streams {
				if tc.whole {
					s.Finish(b)
				} else {
					assertCutOff(b, s)
				}
			}
			require.NoError(t, <-stopped)
			t.Logf("stopped after %s", time.Since(began))
			assert.Equal(t, "success", b.Properties(bed.ProxyUnit, "Result")["Result"])
			assert.NotContains(t, b.UnitJournal(bed.ProxyUnit), "SIGKILL")
		})
	}
}

// assertDraining asserts that new work is refused with the reason and Retry-After.
func assertDraining(b *bed.Bed) {
	b.T.Helper()
	status, header, body := b.Chat(false, "too late")
	assert.Equal(b.T, http.StatusServiceUnavailable, status)
	assert.Contains(b.T, body, `"code":"draining"`)
	assert.NotEmpty(b.T, header.Get("Retry-After"))
	code, r := b.Readyz()
	assert.Equal(b.T, http.StatusServiceUnavailable, code)
	assert.Equal(b.T, "draining", string(r.Health.Readiness.Reason))
}

// assertCutOff asserts that the client gets an error, and that the worker's turn is
// interrupted.
func assertCutOff(b *bed.Bed, s *bed.Held) {
	b.T.Helper()
	rest := s.Rest(b.T)
	assert.Contains(b.T, rest, `"code":"draining"`)
	assert.NotContains(b.T, rest, "[DONE]")
	ctx, cancel := context.WithTimeout(b.T.Context(), bed.Bound)
	defer cancel()
	_, err := b.Models.Wait(ctx, modelserver.CutAtLeast(1))
	assert.NoError(b.T, err)
}

// connecting opens connections until ctx ends, of which none may be refused, and then
// delivers how many.
func connecting(b *bed.Bed, ctx context.Context) <-chan int {
	opened := make(chan int, 1)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			dialling, cancel := context.WithTimeout(context.Background(), bed.Bound)
			conn, err := b.DialContext(dialling, "tcp", "127.0.0.1:8787")
			cancel()
			if assert.NoError(b.T, err) {
				_ = conn.Close()
			}
			bed.Pause(ctx, 5*time.Millisecond) // a restart takes many of them
		}
		opened <- n
	}()
	return opened
}
