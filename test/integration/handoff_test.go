package integration

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

	"codex-proxy/test/machine"
	"codex-proxy/test/modelserver"
)

const configFile = "/etc/codex-proxy/config.toml"

// Reloads without Type=notify-reload, which systemd does not have before 253, lose no
// request, no stream and no connection.
func TestReloadOnOldSystemd(t *testing.T) {
	t.Parallel()
	b := newBed(t, "bookworm", realWorker, "")
	b.start()
	worker := b.codex()
	busy := b.load(8)
	var streams []*held
	for i := range 4 {
		streams = append(streams, b.hold(fmt.Sprintf("reload%d", i)))
		before := b.mainPID()
		b.MustRun(t, "systemctl", "reload", proxyUnit)
		assert.NotEqual(t, before, b.mainPID(), "the same process still serves")
		busy.reach(t, 50)
	}
	busy.end(t)
	for _, s := range streams {
		s.finish(b)
	}
	b.awaitSole()
	assert.Equal(t, worker, b.codex(), "the worker must not notice")
	b.assertSmooth()
}

// assertSmooth asserts that systemd has seen no failure and no restart.
func (b *bed) assertSmooth() {
	b.t.Helper()
	show := b.show(proxyUnit, "NRestarts", "ActiveState", "Result")
	assert.Equal(b.t, map[string]string{"NRestarts": "0", "ActiveState": "active", "Result": "success"}, show)
	journal := b.journal(proxyUnit)
	for _, bad := range []string{
		"not our child", "reception only permitted", "panic", "Killing process", "cut off", "by force",
	} {
		assert.NotContains(b.t, journal, bad)
	}
}

func (b *bed) mainPID() string {
	b.t.Helper()
	return b.show(proxyUnit, "MainPID")["MainPID"]
}

// awaitSole waits for the processes from before reloads to end.
func (b *bed) awaitSole() {
	b.t.Helper()
	var processes []machine.Process
	require.Eventually(b.t, func() bool {
		var err error
		processes, err = b.Processes(proxyUnit)
		return err == nil && len(processes) == 1
	}, bound, 20*time.Millisecond, "%v", processes)
	assert.Equal(b.t, b.mainPID(), fmt.Sprint(processes[0].Inside))
}

// A reload puts the new configuration into force. If the configuration or the program is
// bad, the old process stays.
func TestReloadFails(t *testing.T) { bothSuites(t, testReloadFails) }

func testReloadFails(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.start()
	require.NoError(t, b.WriteFile(configFile, []byte("start_timeout = \"5s\"\nbody_limit = 2048\n"), 0o644))
	long := strings.Repeat("x", 4096)
	status, _, _ := b.chat(false, long)
	assert.Equal(t, http.StatusOK, status)
	b.MustRun(t, "systemctl", "reload", proxyUnit)
	b.http.CloseIdleConnections() // an open one still belongs to the old process
	status, _, _ = b.chat(false, long)
	assert.Equal(t, http.StatusRequestEntityTooLarge, status, "the new configuration is not in force")
	b.awaitSole()

	good, err := b.ReadFile("/usr/bin/codex-proxy")
	require.NoError(t, err)
	require.NoError(t, b.WriteFile("/usr/bin/codex-proxy.good", good, 0o755))
	main := b.onlyProcess(proxyUnit)
	stream := b.hold("failing")
	busy := b.load(4)
	for _, tc := range []struct {
		name, file, text, reason string
	}{
		{"configuration", configFile, "body_limt = 4096\n", `unknown key "body_limt" (did you mean "body_limit"?)`},
		{"workers", configFile, "start_timeout = \"1s\"\nworkers = [\"nobody\"]\n",
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
			if tc.file == configFile {
				_, _, err := b.Run(t.Context(), "systemctl", "reload", proxyUnit)
				assert.Error(t, err)
			}
			_, stderr, err := b.Run(t.Context(), "env", "/usr/bin/codex-proxy.good", "reload")
			assert.Error(t, err)
			assert.Contains(t, stderr, tc.reason)
			replace(kept)

			assert.Contains(t, b.journal(proxyUnit), strings.ReplaceAll(tc.reason, `"`, `\"`))
			show := b.show(proxyUnit, "StatusText", "ActiveState", "SubState", "NRestarts")
			assert.Contains(t, show["StatusText"], tc.reason)
			assert.Equal(t, []string{"active", "running", "0"},
				[]string{show["ActiveState"], show["SubState"], show["NRestarts"]})
			b.awaitSole() // the processes of a failed reload end after the verdict
			assert.Equal(t, main, b.onlyProcess(proxyUnit))
		})
	}
	busy.end(t)
	stream.finish(b)
	require.NoError(t, b.WriteFile(configFile, nil, 0o644))
	b.MustRun(t, "systemctl", "reload", proxyUnit)
	b.awaitSole()
	assert.NotContains(t, b.show(proxyUnit, "StatusText")["StatusText"], "failed")
}

func (b *bed) awaitStatus(text string) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		return strings.Contains(b.show(proxyUnit, "StatusText")["StatusText"], text)
	}, bound, 10*time.Millisecond)
}

// A restart finishes even streams of a minute; requests that come meanwhile wait.
func TestRestartOfLongStreams(t *testing.T) {
	bothSuites(t, testRestartOfLongStreams)
}

func testRestartOfLongStreams(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, crowdConfig)
	b.start()
	worker := b.codex()
	l := newLedger()
	var clients sync.WaitGroup
	ask := func(e *entry) {
		l.begin(e)
		clients.Go(func() { e.ask(b.HTTPClient()); l.end(e) })
	}
	for i := range crowdSize {
		ask(&entry{id: fmt.Sprintf("long%02d", i), stream: true, lasts: 59 * time.Second})
	}
	require.Eventually(t, func() bool { return l.begun() == crowdSize }, bound, 10*time.Millisecond)
	restarted := make(chan error, 1)
	before := b.mainPID()
	go func() {
		_, _, err := b.Run(t.Context(), "systemctl", "restart", proxyUnit)
		restarted <- err
	}()
	b.awaitStatus("Stopping")
	ask(&entry{id: "meanwhile"})
	clients.Wait()
	require.NoError(t, <-restarted)
	assert.Len(t, l.which((*entry).complete), crowdSize+1, "%v", l.which(func(e *entry) bool { return !e.complete() }))
	assert.NotEqual(t, before, b.mainPID())
	assert.Equal(t, worker, b.codex(), "the worker must not notice")
	b.assertSmooth()
}

// A stop refuses new work and finishes the turns in flight, in every process and for
// longer than TimeoutStopSec=; a second SIGTERM, like the end of drain_timeout, cuts
// them off, with an error.
func TestStopDrains(t *testing.T) { bothSuites(t, testStopDrains) }

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
			b := newBed(t, suite, realWorker, tc.config)
			b.dropIn(proxyUnit, "test", "[Service]\nTimeoutStopSec=5s\n")
			b.start()
			client := b.HTTPClient()
			require.NoError(t, ask(client, false, false))
			streams := []*held{b.hold("old")}
			if tc.reloaded {
				b.MustRun(t, "systemctl", "reload", proxyUnit)
				require.NoError(t, ask(client, false, false)) // by the old process
				require.NoError(t, ask(client, false, false)) // by the new one
				streams = append(streams, b.hold("new"))
			}
			began := time.Now()
			stopped := make(chan error, 1)
			go func() {
				_, _, err := b.Run(t.Context(), "systemctl", "stop", proxyUnit)
				stopped <- err
			}()
			b.awaitStatus("Stopping")
			b.http.CloseIdleConnections()
			b.assertDraining()
			if tc.again {
				b.MustRun(t, "systemctl", "kill", "--kill-who=main", "--signal=TERM", proxyUnit)
			}
			if tc.whole {
				pause(t.Context(), time.Until(began.Add(7*time.Second)))
			}
			for _, s := range streams {
				if tc.whole {
					s.finish(b)
				} else {
					b.assertCut(s)
				}
			}
			require.NoError(t, <-stopped)
			t.Logf("stopped after %s", time.Since(began))
			assert.Equal(t, "success", b.show(proxyUnit, "Result")["Result"])
			assert.NotContains(t, b.journal(proxyUnit), "SIGKILL")
		})
	}
}

// assertDraining asserts that new work is refused with the reason and Retry-After.
func (b *bed) assertDraining() {
	b.t.Helper()
	status, header, body := b.chat(false, "too late")
	assert.Equal(b.t, http.StatusServiceUnavailable, status)
	assert.Contains(b.t, body, `"code":"draining"`)
	assert.NotEmpty(b.t, header.Get("Retry-After"))
	code, r := b.readyz()
	assert.Equal(b.t, http.StatusServiceUnavailable, code)
	assert.Equal(b.t, "draining", string(r.Health.Readiness.Reason))
}

// assertCut asserts that the client gets an error, and that the worker's turn is
// interrupted.
func (b *bed) assertCut(s *held) {
	b.t.Helper()
	rest := s.rest(b.t)
	assert.Contains(b.t, rest, `"code":"draining"`)
	assert.NotContains(b.t, rest, "[DONE]")
	ctx, cancel := context.WithTimeout(b.t.Context(), bound)
	defer cancel()
	_, err := b.models.Wait(ctx, modelserver.CutAtLeast(1))
	assert.NoError(b.t, err)
}

// connecting opens connections until ctx ends, of which none may be refused, and then
// delivers how many.
func (b *bed) connecting(ctx context.Context) <-chan int {
	opened := make(chan int, 1)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			dialling, cancel := context.WithTimeout(context.Background(), bound)
			conn, err := b.DialContext(dialling, "tcp", "127.0.0.1:8787")
			cancel()
			if assert.NoError(b.t, err) {
				_ = conn.Close()
			}
		}
		opened <- n
	}()
	return opened
}
