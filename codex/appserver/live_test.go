package appserver_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/history"
	"codex-proxy/codex/rpc"
	"codex-proxy/codex/turnerror"
)

// live connects to a real codex.
func live(t *testing.T, u *upstream, retries int) *appserver.Conn {
	t.Helper()
	socket, _ := startCodex(t, u, retries)
	c := dial(t, socket, appserver.Options{ClientName: "live-test", ClientVersion: "1"})
	r, err := c.Initialize(bound(t))
	require.NoError(t, err)
	require.Contains(t, r.UserAgent, "live-test/")
	return c
}

func liveHello() appserver.TurnRequest {
	r := hello()
	r.Model, r.Summary = "gpt-5.5", "detailed"
	return r
}

func TestLiveModels(t *testing.T) {
	c := live(t, newUpstream(helloWorld), 0)
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

func TestLiveTurn(t *testing.T) {
	u := newUpstream(helloWorld)
	c := live(t, u, 0)
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

func TestLiveItems(t *testing.T) {
	u := newUpstream()
	conn := live(t, u, 0)
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
		})
	}
}

func TestLiveCloseCutsTheUpstream(t *testing.T) {
	u := newUpstream(func(s *stream) { s.created(); s.deltas("msg_1", "Hel"); s.hang() })
	c := live(t, u, 0)
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
func TestLiveCloseAtOnce(t *testing.T) {
	u := newUpstream(func(s *stream) { s.hang() })
	c := live(t, u, 0)
	for range 20 {
		turn, err := c.StartTurn(bound(t), liveHello())
		require.NoError(t, err)
		require.NoError(t, turn.Close(bound(t)))
	}
	var loaded struct {
		Data []string `json:"data"`
	}
	eventually(t, func() bool {
		return c.Call(bound(t), "thread/loaded/list", struct{}{}, &loaded) == nil && len(loaded.Data) == 0
	})
}

func TestLiveCancelledStart(t *testing.T) {
	u := newUpstream(func(s *stream) { s.hang() })
	c := live(t, u, 0)
	for i := range 30 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*time.Millisecond)
		if turn, err := c.StartTurn(ctx, liveHello()); err == nil {
			require.NoError(t, turn.Close(bound(t)))
		}
		cancel()
	}
	var loaded struct {
		Data []string `json:"data"`
	}
	eventually(t, func() bool {
		return c.Call(bound(t), "thread/loaded/list", struct{}{}, &loaded) == nil && len(loaded.Data) == 0
	})
}

// The table in the comment of turnerror.Error.
func TestLiveErrors(t *testing.T) {
	httpError := func(code int, kind, name string) func(*stream) {
		return status(code, `{"error":{"message":"upstream says no","type":"`+kind+`","code":"`+name+`"}}`)
	}
	partial := func(then func(*stream)) func(*stream) {
		return func(s *stream) { s.created(); s.deltas("msg_1", "Hello", " wor"); then(s) }
	}
	incomplete := func(reason string) func(*stream) { return func(s *stream) { s.incomplete(reason) } }
	const broken = "stream disconnected before completion: "
	u := newUpstream()
	conn := live(t, u, 0) // one for all: a start of codex takes more than all of these turns
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
			require.Equal(t, appserver.TurnFailed, o.end.Status)
			assert.Equal(t, turnerror.Info{Kind: c.kind, HTTPStatus: c.status}, o.end.Err.Info, o.end.Err.Message)
			assert.Truef(t, strings.HasPrefix(o.end.Err.Message, c.message), "%q", o.end.Err.Message)
			_, incomplete := o.end.Err.Incomplete()
			assert.Equal(t, strings.HasPrefix(c.name, "incomplete"), incomplete)
			if c.name == "incomplete" {
				assert.EqualValues(t, 18, o.usage.TotalTokens)
			}
		})
	}
}

// Upstream finds the endpoint's words in the texts of the real codex.
func TestLiveWords(t *testing.T) {
	body := func(code int) func(*stream) {
		return status(code, `{"error":{"message":"upstream says no","type":"t","param":"p","code":"c"}}`)
	}
	words := turnerror.Upstream{Message: "upstream says no"}
	u := newUpstream()
	conn := live(t, u, 0)
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
			require.Equal(t, appserver.TurnFailed, o.end.Status)
			assert.Equal(t, c.want, o.end.Err.Upstream(), o.end.Err.Message)
		})
	}
}

func TestLiveRetries(t *testing.T) {
	u := newUpstream(func(s *stream) { s.created(); s.drop() }, helloWorld)
	c := live(t, u, 2)
	o := drain(t, start(t, c, liveHello()))
	assert.Equal(t, "Hello world", o.text)
	assert.Equal(t, 1, o.retries)

	u.script(func(s *stream) { s.created(); s.deltas("msg_1", "Hello wor"); s.drop() }, helloWorld)
	o = drain(t, start(t, c, liveHello()))
	assert.Equal(t, "Hello wor", o.text)
	require.Equal(t, appserver.TurnFailed, o.end.Status)
	assert.Equal(t, turnerror.Info{Kind: "responseStreamDisconnected"}, o.end.Err.Info)
}

func TestLiveLargeHistory(t *testing.T) {
	u := newUpstream(helloWorld)
	c := live(t, u, 0)
	r := liveHello()
	r.Items = nil
	for range 20 {
		r.Items = append(r.Items, history.TextMessage("user", strings.Repeat("0123456789abcdef", 1<<20/16)))
	}
	assert.Equal(t, "Hello world", drain(t, start(t, c, r)).text)
	require.Len(t, u.requests(), 1, "no request for a summary")
	assert.Greater(t, len(u.requests()[0]), 20<<20)
}

func TestLiveOverload(t *testing.T) {
	c := live(t, newUpstream(helloWorld), 0)
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

func TestLiveStoppedAndKilled(t *testing.T) {
	u := newUpstream(func(s *stream) { s.created(); s.deltas("msg_1", "Hel"); s.hang() })
	socket, process := startCodex(t, u, 0)
	c := dial(t, socket, appserver.Options{WriteTimeout: 300 * time.Millisecond})
	_, err := c.Initialize(bound(t))
	require.NoError(t, err)
	turn, closed := start(t, c, liveHello()), start(t, c, liveHello())

	require.NoError(t, process.Signal(syscall.SIGSTOP))
	eventually(t, func() bool { // the signal takes a moment to reach every thread
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		return errors.Is(c.Call(ctx, "model/list", struct{}{}, nil), context.DeadlineExceeded)
	})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, closed.Close(ctx), context.DeadlineExceeded)
	require.NoError(t, process.Kill())
	_, err = collect(bound(t), turn)
	assert.ErrorIs(t, err, rpc.ErrLost)
}
