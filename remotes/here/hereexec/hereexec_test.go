package hereexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/remotes"
	"codex-proxy/remotes/authz"
	"codex-proxy/remotes/here"
)

var quiet = slog.New(slog.DiscardHandler)

func edit(t *testing.T, environ, method, params string) string {
	t.Helper()
	settings, err := here.Load()
	require.NoError(t, err)
	e := environments{settings: settings, read: func(int) ([]byte, error) { return []byte(environ), nil }}
	return string(e.edit(authz.Session{}, authz.Request{ID: "1", Method: method, Params: json.RawMessage(params)}))
}

// A thread gets the variables in the list and no others; everything else in the request stays.
func TestVariables(t *testing.T) {
	const environ = "PATH=/x:/y\x00LC_ALL=C\x00OPENAI_API_KEY=sk\x00LC_A.B=dot\x00TERM=a\"b\x00LANG=\xff\x00broken\x00"
	const servers = `"config":{"mcp_servers.codex_tui":{"url":"u"}}`
	var params struct {
		Cwd    string
		Config map[string]any
	}
	for _, method := range []string{"thread/start", "thread/resume", "thread/fork"} {
		edited := edit(t, environ, method, `{"cwd":"/p",`+servers+`}`)
		require.NoError(t, json.Unmarshal([]byte(edited), &params), edited)
		assert.Equal(t, "/p", params.Cwd)
		assert.Equal(t, map[string]any{"mcp_servers.codex_tui": map[string]any{"url": "u"}, "shell_environment_policy.set.PATH": "/x:/y",
			"shell_environment_policy.set.LC_ALL": "C", "shell_environment_policy.set.TERM": `a"b`}, params.Config)
	}
	for _, none := range []string{`{"cwd":"/p"}`, `{"config":null}`, `{"config":{}}`} {
		assert.Contains(t, edit(t, environ, "thread/start", none), "policy.set.PATH", none)
	}
}

func TestRequestsThatStay(t *testing.T) {
	const environ = "PATH=/x\x00"
	for params, method := range map[string]string{
		`{"config":{"shell_environment_policy":{"inherit":"none"}}}`: "thread/start",
		`{"config":{"shell_environment_policy.set":{"A":"b"}}}`:      "thread/start",
		`{"config":7}`:       "thread/start",
		`[]`:                 "thread/start",
		`{"threadId":"one"}`: "turn/start",
	} {
		assert.Empty(t, edit(t, environ, method, params), params)
	}
	assert.Empty(t, edit(t, "HOME=/x\x00", "thread/start", "{}"), "nothing to add")
	large := "PATH=/x\x00LC_BIG=" + strings.Repeat("x", largestPassed) + "\x00LANG=C\x00"
	assert.NotContains(t, edit(t, large, "thread/start", "{}"), "LANG")
}

// A thread keeps the variables of its first client, for a turn that goes on after a crash.
func TestVariablesOfAThread(t *testing.T) {
	settings, err := here.Load()
	require.NoError(t, err)
	e := &environments{settings: settings, read: func(pid int) ([]byte, error) {
		return fmt.Appendf(nil, "PATH=/of/%d\x00", pid), nil
	}}
	client := func(id uint64) authz.Session { return authz.Session{ID: id, Peer: authz.Peer{PID: int(id)}} }
	send := func(id uint64, method, thread, params string) {
		e.edit(client(id), authz.Request{ID: "1", Method: method, ThreadID: thread, Params: json.RawMessage(params)})
	}
	path := func(thread string) string { return string(e.loaded(thread)["shell_environment_policy.set.PATH"]) }
	send(1, "thread/start", "", `{}`)
	send(1, "turn/start", "a", `{"threadId":"a"}`)
	assert.Equal(t, `"/of/1"`, path("a"), "a thread that is new")
	send(2, "thread/resume", "a", `{"threadId":"a"}`)
	send(2, "turn/start", "a", `{"threadId":"a"}`)
	assert.Equal(t, `"/of/1"`, path("a"), "codex leaves a thread that is loaded")
	send(2, "thread/resume", "b", `{"threadId":"b"}`)
	send(1, "turn/start", "b", `{"threadId":"b"}`)
	assert.Equal(t, `"/of/2"`, path("b"))
	send(3, "thread/start", "", `{"config":{"shell_environment_policy":{"inherit":"none"}}}`)
	send(3, "turn/start", "c", `{"threadId":"c"}`)
	assert.Empty(t, e.loaded("c"), "a client with a policy of its own")
	e.forget("a")
	send(2, "thread/resume", "a", `{"threadId":"a"}`)
	assert.Equal(t, `"/of/2"`, path("a"), "codex had closed the thread")
	send(3, "thread/resume", "d", `{"threadId":"d","config":{"shell_environment_policy":{"inherit":"none"}}}`)
	for _, thread := range []string{"c", "d"} {
		send(1, "thread/resume", thread, `{"threadId":"`+thread+`"}`)
		send(1, "turn/start", thread, `{"threadId":"`+thread+`"}`)
		assert.Empty(t, e.loaded(thread), "codex keeps the policy of the first client")
	}
	for n := range 2 * mostThreads {
		send(1, "turn/start", fmt.Sprint("t", n), "{}")
	}
	assert.LessOrEqual(t, len(e.threads), mostThreads)
}

func TestOurOwnEnvironmentIsRead(t *testing.T) {
	text, err := readEnvironment(os.Getpid())
	require.NoError(t, err)
	assert.Contains(t, string(text), "PATH=")
}

const result = `{"userAgent":"codex-tui/0.171.0 (Debian 13.0.0; x86_64) unknown (codex-tui; 0.2.0)","codexHome":"/h"}`

// The result of codex is known at the next start, also of another version.
func TestGreeting(t *testing.T) {
	state, at := t.TempDir(), t.TempDir()
	program := filepath.Join(at, "bin/codex")
	install := func(version, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(program), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(at, "codex-package.json"), []byte(`{"version":"`+version+`"}`), 0o600))
		require.NoError(t, os.WriteFile(program, []byte(text), 0o600))
	}
	install("0.171.0", "old")
	g := newGreeting(state, program, quiet)
	assert.Nil(t, g.known())
	g.learn(json.RawMessage(result))
	assert.JSONEq(t, result, string(newGreeting(state, program, quiet).known()))
	install("0.172.0", "newer")
	assert.Contains(t, string(newGreeting(state, program, quiet).known()), "codex-tui/0.172.0 (Debian")
	require.NoError(t, os.Remove(filepath.Join(at, "codex-package.json")))
	assert.Nil(t, newGreeting(state, program, quiet).known(), "the version is not known")
	require.NoError(t, os.WriteFile(filepath.Join(state, greetingFile), []byte("{"), 0o600))
	assert.Nil(t, newGreeting(state, program, quiet).known())
}

func TestStarting(t *testing.T) {
	g := &greeting{result: json.RawMessage(result)}
	open := make(chan struct{})
	probe := func(ctx context.Context) (string, error) {
		select {
		case <-open:
			return "open", nil
		default:
		}
		select {
		case <-open:
			return "open", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	known, wait := g.starting(probe)
	assert.NotNil(t, known)
	require.NotNil(t, wait)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, wait(ended))
	close(open)
	require.NoError(t, wait(t.Context()))
	_, wait = g.starting(probe)
	assert.Nil(t, wait)
}

// Another codex is taken once its installation has ended, and once no turn runs.
func TestUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		program := filepath.Join(dir, "codex")
		require.NoError(t, os.WriteFile(program, []byte("old"), 0o600))
		var renewals atomic.Int64
		var fails atomic.Pointer[error]
		fails.Store(new(error))
		u := upgrade{installed: func() (string, error) { return program, nil }, loan: func() (string, error) { return "", nil }, logger: quiet,
			renew: func() error { renewals.Add(1); return *fails.Load() }}
		done := make(chan struct{})
		go func() { defer close(done); u.run(t.Context()) }()
		look := func() { time.Sleep(lookPeriod); synctest.Wait() } //nolint:forbidigo // of the clock of synctest
		look()
		look()
		assert.Zero(t, renewals.Load())
		require.NoError(t, os.Remove(program))
		look()
		look()
		assert.Zero(t, renewals.Load(), "there is none just now")
		require.NoError(t, os.WriteFile(program, []byte("a newer one"), 0o600))
		busy, other := remotes.ErrBusy, errors.New("x")
		fails.Store(&busy)
		look()
		assert.Zero(t, renewals.Load(), "it may be written still")
		look()
		assert.EqualValues(t, 1, renewals.Load())
		fails.Store(&other)
		look()
		fails.Store(new(error))
		look()
		<-done
		assert.EqualValues(t, 3, renewals.Load())
	})
}

// A loan that changes while the unit starts is taken.
func TestALoanThatChangesAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		program := filepath.Join(t.TempDir(), "codex")
		require.NoError(t, os.WriteFile(program, nil, 0o600))
		loan, renewed := loanWord(here.Record{Loan: &here.Loan{}}), false
		upgrade{installed: func() (string, error) { return program, nil }, loan: func() (string, error) { return loan, nil },
			lent: loanWord(here.Record{Loan: &here.Loan{On: true}}), renew: func() error { renewed = true; return nil }, logger: quiet}.
			run(t.Context())
		assert.True(t, renewed)
	})
}

func TestOnlyTheUserIsAdmitted(t *testing.T) {
	require.NoError(t, admit(authz.Peer{UID: os.Getuid()}, authz.Owner))
	assert.ErrorContains(t, admit(authz.Peer{UID: os.Getuid() + 1}, authz.Owner), "the codex of another user")
}
