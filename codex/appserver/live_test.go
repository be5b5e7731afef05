package appserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"text/template"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/codexaccount"
	"codex-proxy/codex/history"
	"codex-proxy/codex/rpc"
	"codex-proxy/codex/turnerror"
	"codex-proxy/codex/versions"
)

// live is a real codex that runs, and the connection to it, for many tests one after the other: a start of codex takes
// more than most of their turns.
type live struct {
	installed
	socket  string
	process *os.Process
	model   atomic.Pointer[upstream]
	*appserver.Conn
}

func (c installed) live(t *testing.T, config *template.Template, retries int) *live {
	t.Helper()
	l := &live{installed: c}
	l.socket, l.process = c.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.model.Load().ServeHTTP(w, r) }),
		config, retries)
	l.Conn = l.connect(t, appserver.Options{ClientName: "live-test", ClientVersion: "1"})
	return l
}

// connect opens another connection.
func (l *live) connect(t *testing.T, o appserver.Options) *appserver.Conn {
	t.Helper()
	c := dial(t, l.socket, o)
	r, err := c.Initialize(bound(t))
	require.NoError(t, err)
	require.Contains(t, r.UserAgent, o.ClientName)
	return c
}

// plays has a model of its own for the next turns.
func (l *live) plays(scripts ...func(*stream)) *upstream {
	u := newUpstream(scripts...)
	l.model.Store(u)
	return u
}

// The real codex, of each version of the tests, does what this package rests on.
func TestLive(t *testing.T) {
	each(t, func(t *testing.T, c installed) {
		l := c.live(t, plain, 0)
		for _, test := range []struct {
			name string
			run  func(*testing.T, *live)
		}{
			{"Models", testModels}, {"Limits", testLimits}, {"Turn", testTurn}, {"Items", testItems}, {"CloseCutsTheUpstream", testCloseCutsTheUpstream},
			{"CloseAtOnce", testCloseAtOnce}, {"CancelledStart", testCancelledStart}, {"Errors", testErrors},
			{"Words", testWords}, {"LargeHistory", testLargeHistory}, {"Overload", testOverload}, {"Tools", testTools},
			{"ToolSchemas", testToolSchemas}, {"ToolNamesAndSettings", testToolNamesAndSettings},
			{"HiddenToolNames", testHiddenToolNames}, {"CutOffAfterACall", testCutOffAfterACall},
			{"SlowAfterACall", testSlowAfterACall}, {"Transcript", testTranscript},
			{"StoppedAndKilled", testStoppedAndKilled},
		} {
			t.Run(test.name, func(t *testing.T) { test.run(t, l) })
		}
	})
}

// So it does as a worker with codex's own tools, whose requests it repeats.
func TestLiveNative(t *testing.T) {
	each(t, func(t *testing.T, c installed) {
		l := c.live(t, native, 2)
		t.Run("Retries", func(t *testing.T) { testRetries(t, l) })
		t.Run("FirstMessages", func(t *testing.T) { testFirstMessages(t, l) })
	})
}

func liveHello() appserver.TurnRequest {
	r := hello()
	r.Model, r.Summary = "gpt-5.5", "detailed"
	return r
}

func testModels(t *testing.T, l *live) {
	l.plays(helloWorld)
	c := l.Conn
	models, err := c.Models(bound(t))
	require.NoError(t, err)
	at := slices.IndexFunc(models, func(m appserver.Model) bool { return m.ID == "gpt-5.5" })
	require.GreaterOrEqual(t, at, 0)
	assert.Equal(t, []appserver.ServiceTier{{ID: "priority"}}, models[at].Tiers)
	assert.Contains(t, models[at].Efforts, appserver.Effort{Name: "high"})

	var account struct {
		Account            *struct{} `json:"account"`
		RequiresOpenAIAuth bool      `json:"requiresOpenaiAuth"`
	}
	require.NoError(t, c.Call(bound(t), "account/read", struct{}{}, &account))
	assert.Nil(t, account.Account)
	assert.False(t, account.RequiresOpenAIAuth)
}

// Without a login there are no limits: that is all a codex may have against the request.
func testLimits(t *testing.T, l *live) {
	_, err := codexaccount.ReadLimits(bound(t), l.Conn)
	assert.ErrorContains(t, err, "authentication required")
}

func testTurn(t *testing.T, l *live) {
	u := l.plays(helloWorld)
	c := l.Conn
	instructions := "You are terse."
	r := liveHello()
	r.BaseInstructions, r.Effort = &instructions, "high"
	r.OutputSchema = []byte(`{"type":"object","properties":{},"required":[],"additionalProperties":false}`)
	r.Items = []history.Item{
		history.TextMessage("user", "what is the weather?"),
		history.FunctionCall("call_1", "weather", `{"city":"Paris"}`),
		history.FunctionCallOutput("call_1", "sunny"),
		history.TextMessage("assistant", "Sunny."),
		history.Message("user", history.Content{Type: "input_text", Text: "and here?"},
			history.Content{Type: "input_image",
				ImageURL: "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="}),
	}
	o := drain(t, start(t, c, r))

	assert.Equal(t, "Hello world", o.text)
	assert.Equal(t, "let me think", o.reasoning)
	assert.Equal(t, appserver.TurnCompletedOK, o.end.Status)
	assert.Equal(t, appserver.Usage{InputTokens: 11, CachedInputTokens: 3, OutputTokens: 7, ReasoningOutputTokens: 2,
		TotalTokens: 18}, o.usage)
	require.Len(t, u.requests(), 1)
	body := u.requests()[0]
	last := 0
	for _, want := range []string{"You are terse.", "what is the weather?", "call_1", "sunny", "Sunny.", "and here?",
		"data:image/png", `"effort":"high"`, "json_schema"} {
		at := strings.Index(body[last:], want)
		require.GreaterOrEqual(t, at, 0, "%q is missing or out of order upstream", want)
		last += at
	}
	var items []string
	for _, e := range o.events {
		if e, ok := e.(appserver.ResponseItem); ok {
			items = append(items, string(e.Item))
		}
	}
	require.Len(t, items, 2, "the model's items, without the echo of the injected ones")
	assert.Contains(t, items[0], "opaque")
}

func testItems(t *testing.T, l *live) {
	u := l.plays()
	conn := l.Conn
	for name, c := range map[string]struct {
		script func(*stream)
		want   string
	}{
		"two messages": {func(s *stream) {
			s.deltas("msg_1", "one, ")
			s.itemDone("msg_1", "one, ")
			s.deltas("msg_2", "tw", "o")
			s.itemDone("msg_2", "two")
		}, "one, two"},
		"no deltas": {func(s *stream) { s.itemDone("msg_1", "at once") }, "at once"},
		"no id":     {func(s *stream) { s.deltas("", "with", "out"); s.itemDone("", "without") }, "without"},
		"nothing":   {func(*stream) {}, ""},
		"a broken line": {func(s *stream) { _, _ = io.WriteString(s, "data: {]\n\n"); s.itemDone("msg_1", "still") },
			"still"},
	} {
		t.Run(name, func(t *testing.T) {
			u.script(func(s *stream) { s.created(); c.script(s); s.completed() })
			o := drain(t, start(t, conn, liveHello()))
			assert.Equal(t, c.want, o.text)
			assert.Equal(t, appserver.TurnCompletedOK, o.end.Status)
			if name == "no id" {
				return
			}
			for _, e := range o.events {
				if item, ok := e.(appserver.ResponseItem); ok && len(o.texts) > 0 {
					var named struct{ ID string }
					require.NoError(t, json.Unmarshal(item.Item, &named))
					assert.Contains(t, o.texts, named.ID, "the item is that of its text: %s", item.Item)
				}
			}
		})
	}
}

func testCloseCutsTheUpstream(t *testing.T, l *live) {
	u := l.plays(func(s *stream) { s.created(); s.deltas("msg_1", "Hel"); s.hang() })
	c := l.Conn
	turn := start(t, c, liveHello())
	for {
		e, err := turn.Next(bound(t))
		require.NoError(t, err)
		if _, ok := e.(appserver.TextDelta); ok {
			break
		}
	}
	require.NoError(t, turn.Close(bound(t)))
	select {
	case <-u.cut:
	case <-time.After(time.Minute):
		assert.Fail(t, "the request goes on")
	}
}

// The turn is closed before its first event, even before turn/started.
func testCloseAtOnce(t *testing.T, l *live) {
	l.plays(func(s *stream) { s.hang() })
	c := l.Conn
	for range 20 {
		turn, err := c.StartTurn(bound(t), liveHello())
		require.NoError(t, err)
		require.NoError(t, turn.Close(bound(t)))
	}
	l.unloads(t)
}

// unloads waits until codex has no threads. One without thread_unload_delay_secs keeps them for half an hour.
func (l *live) unloads(t *testing.T) {
	t.Helper()
	if l.minor < 169 {
		return
	}
	var loaded struct {
		Data []string `json:"data"`
	}
	eventually(t, func() bool {
		return l.Call(bound(t), "thread/loaded/list", struct{}{}, &loaded) == nil && len(loaded.Data) == 0
	})
}

func testCancelledStart(t *testing.T, l *live) {
	l.plays(func(s *stream) { s.hang() })
	c := l.Conn
	for i := range 30 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*time.Millisecond)
		if turn, err := c.StartTurn(ctx, liveHello()); err == nil {
			require.NoError(t, turn.Close(bound(t)))
		}
		cancel()
	}
	l.unloads(t)
}

// failure is the error of a turn.
type failure struct {
	kind    string
	status  int
	message string // prefix
}

// olderErrors has the errors that were others before a version of codex, by the names of testErrors. The versions are of
// the tests: the change was after the one before.
var olderErrors = []struct {
	before int
	errors map[string]failure
}{
	{153, map[string]failure{"failed rate limit": {"other", 0, "stream disconnected before completion: "}}},
	{169, map[string]failure{
		"400 context":        {"other", 0, `{"error":`},
		"400 model":          {"other", 0, `{"error":`},
		"400 content policy": {"other", 0, `{"error":`},
		"404 model":          {"httpConnectionFailed", 404, "unexpected status 404"},
		"429 quota":          {"responseTooManyFailedAttempts", 429, ""},
		"503 slow down":      {"serverOverloaded", 0, ""},
		"incomplete":         {"other", 0, "stream disconnected before completion: Incomplete"},
	}},
}

// The table in the comment of turnerror.Error.
func testErrors(t *testing.T, l *live) {
	httpError := func(code int, kind, name string) func(*stream) {
		return status(code, `{"error":{"message":"upstream says no","type":"`+kind+`","code":"`+name+`"}}`)
	}
	partial := func(then func(*stream)) func(*stream) {
		return func(s *stream) { s.created(); s.deltas("msg_1", "Hello", " wor"); then(s) }
	}
	incomplete := func(reason string) func(*stream) { return func(s *stream) { s.incomplete(reason) } }
	const broken = "stream disconnected before completion: "
	u := l.plays()
	conn := l.Conn
	for _, c := range []struct {
		name    string
		script  func(*stream)
		kind    string
		status  int
		message string // prefix
	}{
		{"400", httpError(400, "x", "x"), "other", 0, `{"error":`},
		{"400 context", httpError(400, "x", "context_length_exceeded"), "contextWindowExceeded", 0, ""},
		{"400 model", httpError(400, "x", "model_not_found"), "modelNotFound", 0, "upstream says no"},
		{"400 content policy", httpError(400, "x", "content_policy_violation"), "other", 0, "upstream says no"},
		{"401", httpError(401, "x", "x"), "httpConnectionFailed", 401, ""},
		{"403", httpError(403, "x", "x"), "httpConnectionFailed", 403, ""},
		{"404", httpError(404, "x", "x"), "httpConnectionFailed", 404, ""},
		{"404 model", httpError(404, "x", "model_not_found"), "modelNotFound", 0, "upstream says no"},
		{"408", httpError(408, "x", "x"), "httpConnectionFailed", 408, ""},
		{"413", httpError(413, "x", "x"), "httpConnectionFailed", 413, ""},
		{"422", httpError(422, "x", "x"), "httpConnectionFailed", 422, ""},
		{"429", httpError(429, "x", "rate_limit_exceeded"), "responseTooManyFailedAttempts", 429, ""},
		{"429 usage limit", status(429,
			`{"error":{"type":"usage_limit_reached","plan_type":"plus","resets_at":1893456000}}`), "usageLimitExceeded",
			0, ""},
		{"429 quota", httpError(429, "insufficient_quota", "insufficient_quota"), "usageLimitExceeded", 0, ""},
		{"500", httpError(500, "x", "x"), "internalServerError", 0, ""},
		{"502", httpError(502, "x", "x"), "httpConnectionFailed", 502, ""},
		{"503", httpError(503, "x", "x"), "httpConnectionFailed", 503, ""},
		{"503 overloaded", httpError(503, "x", "server_is_overloaded"), "serverOverloaded", 0, ""},
		{"503 slow down", httpError(503, "x", "slow_down"), "rateLimitExceeded", 0, ""},
		{"failed context", func(s *stream) { s.failed("context_length_exceeded") }, "contextWindowExceeded", 0, ""},
		{"failed quota", func(s *stream) { s.failed("usage_not_included") }, "usageLimitExceeded", 0, ""},
		{"failed insufficient quota", func(s *stream) { s.failed("insufficient_quota") }, "usageLimitExceeded", 0, ""},
		{"failed usage limit", func(s *stream) { s.failed("usage_limit_reached") }, "other", 0, broken + "upstream says no"},
		{"failed rate limit", func(s *stream) { s.failed("rate_limit_exceeded") }, "rateLimitExceeded", 0, ""},
		{"failed overloaded", func(s *stream) { s.failed("server_is_overloaded") }, "serverOverloaded", 0, ""},
		{"failed policy", func(s *stream) { s.failed("cyber_policy") }, "cyberPolicy", 0, ""},
		{"failed prompt", func(s *stream) { s.failed("invalid_prompt") }, "other", 0, "upstream says no"},
		{"failed otherwise", func(s *stream) { s.failed("server_error") }, "other", 0, broken},
		{"garbage", func(s *stream) { _, _ = io.WriteString(s, "\x00\xff not SSE\n\n") }, "other", 0, broken},
		{"HTML", func(s *stream) { _, _ = io.WriteString(s, "<html>portal</html>") }, "other", 0, broken},
		{"nothing", func(s *stream) { s.drop() }, "other", 0, broken},
		{"half a stream", partial((*stream).drop), "other", 0, broken},
		{"no end", partial(func(*stream) {}), "other", 0, broken},
		{"idle", partial((*stream).hang), "other", 0, broken + "idle timeout"},
		{"incomplete", func(s *stream) { s.created(); s.itemDone("m", "x"); incomplete("max_output_tokens")(s) },
			"other", 0, "Incomplete"},
		{"incomplete item", partial(incomplete("content_filter")), "other", 0, broken + "Incomplete"},
	} {
		t.Run(c.name, func(t *testing.T) {
			u.script(c.script)
			o := drain(t, start(t, conn, liveHello()))
			want := failure{c.kind, c.status, c.message}
			for _, older := range olderErrors {
				if was, is := older.errors[c.name]; is && l.minor < older.before {
					want = was
					break
				}
			}
			require.Equal(t, appserver.TurnFailed, o.end.Status)
			assert.Equal(t, turnerror.Info{Kind: want.kind, HTTPStatus: want.status}, o.end.Err.Info, o.end.Err.Message)
			assert.Truef(t, strings.HasPrefix(o.end.Err.Message, want.message), "%q", o.end.Err.Message)
			_, incomplete := o.end.Err.Incomplete()
			assert.Equal(t, strings.HasPrefix(c.name, "incomplete"), incomplete)
			if c.name == "incomplete" && l.minor >= 169 {
				assert.EqualValues(t, 18, o.usage.TotalTokens)
			}
		})
	}
}

// Upstream finds the endpoint's words in the texts of the real codex.
func testWords(t *testing.T, l *live) {
	body := func(code int) func(*stream) {
		return status(code, `{"error":{"message":"upstream says no","type":"t","param":"p","code":"c"}}`)
	}
	words := turnerror.Upstream{Message: "upstream says no"}
	u := l.plays()
	conn := l.Conn
	for name, c := range map[string]struct {
		script func(*stream)
		want   turnerror.Upstream
	}{
		"400":               {body(400), turnerror.Upstream{Message: "upstream says no", Code: "c", Param: "p"}},
		"404":               {body(404), words},
		"502":               {body(502), words},
		"503":               {body(503), words},
		"404 plain":         {status(404, "404 page not found"), turnerror.Upstream{Message: "404 page not found"}},
		"429":               {body(429), turnerror.Upstream{}},
		"500":               {body(500), turnerror.Upstream{}},
		"failed rate limit": {func(s *stream) { s.failed("rate_limit_exceeded") }, words},
		"failed otherwise": {func(s *stream) { s.failed("server_error") },
			turnerror.Upstream{Message: "upstream says no", Phase: turnerror.InStream}},
		"nothing": {func(s *stream) { s.drop() }, turnerror.Upstream{Phase: turnerror.Unsent}},
		"half a stream": {func(s *stream) { s.created(); s.deltas("msg_1", "Hel"); s.drop() },
			turnerror.Upstream{Phase: turnerror.Cut}},
		"no end": {func(s *stream) { s.created() }, turnerror.Upstream{Phase: turnerror.Cut}},
		"idle":   {func(s *stream) { s.created(); s.hang() }, turnerror.Upstream{Phase: turnerror.Silent}},
	} {
		t.Run(name, func(t *testing.T) {
			u.script(c.script)
			o := drain(t, start(t, conn, liveHello()))
			if name == "failed rate limit" && l.minor < 153 { // which names no reason
				c.want.Phase = turnerror.InStream
			}
			require.Equal(t, appserver.TurnFailed, o.end.Status)
			assert.Equal(t, c.want, o.end.Err.Upstream(), o.end.Err.Message)
		})
	}
}

func testRetries(t *testing.T, l *live) {
	u := l.plays(func(s *stream) { s.created(); s.drop() }, helloWorld)
	c := l.Conn
	o := drain(t, start(t, c, liveHello()))
	assert.Equal(t, "Hello world", o.text)
	assert.Equal(t, 1, o.retries)

	u.script(func(s *stream) { s.created(); s.deltas("msg_1", "Hello wor"); s.drop() }, helloWorld)
	o = drain(t, start(t, c, liveHello()))
	assert.Equal(t, "Hello wor", o.text)
	require.Equal(t, appserver.TurnFailed, o.end.Status)
	assert.Equal(t, turnerror.Info{Kind: "responseStreamDisconnected"}, o.end.Err.Info)
}

func testLargeHistory(t *testing.T, l *live) {
	if l.minor < versions.Tested {
		return // these 20 MiB take 0.140 18 s
	}
	u := l.plays(helloWorld)
	c := l.Conn
	r := liveHello()
	r.Items = nil
	for range 20 {
		r.Items = append(r.Items, history.TextMessage("user", strings.Repeat("0123456789abcdef", 1<<20/16)))
	}
	assert.Equal(t, "Hello world", drain(t, start(t, c, r)).text)
	require.Len(t, u.requests(), 1, "no request for a summary")
	assert.Greater(t, len(u.requests()[0]), 20<<20)
}

func testOverload(t *testing.T, l *live) {
	l.plays(helloWorld)
	c := l.Conn
	var overloaded atomic.Int64
	var g errgroup.Group
	for range 1500 {
		g.Go(func() error {
			err := c.Call(bound(t), "model/list", struct{}{}, nil)
			var refusal *rpc.Error
			if errors.As(err, &refusal) && refusal.Code == rpc.CodeOverloaded {
				overloaded.Add(1)
				return nil
			}
			return err
		})
	}
	require.NoError(t, g.Wait())
	t.Logf("%d of 1500 were refused", overloaded.Load())
	assert.NoError(t, c.Err())
	assert.Equal(t, "Hello world", drain(t, start(t, c, liveHello())).text)
}

func testStoppedAndKilled(t *testing.T, l *live) {
	l.plays(func(s *stream) { s.created(); s.deltas("msg_1", "Hel"); s.hang() })
	c := l.connect(t, appserver.Options{WriteTimeout: 300 * time.Millisecond})
	turn, closed := start(t, c, liveHello()), start(t, c, liveHello())

	require.NoError(t, l.process.Signal(syscall.SIGSTOP))
	eventually(t, func() bool { // the signal takes a moment to reach every thread
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		return errors.Is(c.Call(ctx, "model/list", struct{}{}, nil), context.DeadlineExceeded)
	})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, closed.Close(ctx), context.DeadlineExceeded)
	require.NoError(t, l.process.Kill())
	_, err := collect(bound(t), turn)
	assert.ErrorIs(t, err, rpc.ErrLost)
}
