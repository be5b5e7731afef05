package api

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
)

// Each way in which codex lets a turn fail, and what a client sees of it.
var turnFailures = []struct {
	name, message string
	info          any
	status        int
	kind, code    string
	retryAfter    string
}{
	{"usage limit", "limit", "usageLimitExceeded", 429, "insufficient_quota", "usage_limit_reached", "60"},
	{"session budget", "limit", "sessionBudgetExceeded", 429, "insufficient_quota", "usage_limit_reached", "60"},
	{"rate limit", "slow down", "rateLimitExceeded", 429, "rate_limit_error", "rate_limited", "10"},
	{"overloaded", "busy", "serverOverloaded", 503, "backend_unavailable", "overloaded", "5"},
	{"no capacity", "busy", "policyCapacityUnavailable", 503, "backend_unavailable", "overloaded", "5"},
	{"context window", "too long", "contextWindowExceeded", 400, "invalid_request_error", "context_length_exceeded",
		""},
	{"cyber policy", "no", "cyberPolicy", 400, "invalid_request_error", "content_policy_violation", ""},
	{"bad request", "no", "badRequest", 400, "invalid_request_error", "upstream_rejected", ""},
	{"model not found", "no such model", "modelNotFound", 404, "invalid_request_error", "model_not_found", ""},
	{"unauthorized", "who", "unauthorized", 503, "backend_unavailable", "upstream_unauthorized", "60"},
	{"internal server error", "oops", "internalServerError", 503, "backend_unavailable", "upstream_error", "5"},
	{"sandbox", "oops", "sandboxError", 400, "invalid_request_error", "upstream_rejected", ""},
	{"a kind of tomorrow", "oops", "brandNew", 400, "invalid_request_error", "upstream_rejected", ""},
	{"bio policy", "no", "bioPolicy", 400, "invalid_request_error", "content_policy_violation", ""},
	{"429 after retries", "x", appservertest.HTTPInfo("responseTooManyFailedAttempts", 429), 429,
		"rate_limit_error", "rate_limited", "10"},
	{"401", "x", appservertest.HTTPInfo("httpConnectionFailed", 401), 503, "backend_unavailable",
		"upstream_unauthorized", "60"},
	{"403", "x", appservertest.HTTPInfo("httpConnectionFailed", 403), 503, "backend_unavailable",
		"upstream_unauthorized", "60"},
	{"413", "x", appservertest.HTTPInfo("httpConnectionFailed", 413), 400, "invalid_request_error",
		"upstream_rejected", ""},
	{"422", "x", appservertest.HTTPInfo("httpConnectionFailed", 422), 400, "invalid_request_error",
		"upstream_rejected", ""},
	{"502", "x", appservertest.HTTPInfo("httpConnectionFailed", 502), 503, "backend_unavailable", "upstream_error",
		"5"},
	{"no status", "x", appservertest.HTTPInfo("httpConnectionFailed", 0), 503, "backend_unavailable",
		"upstream_error", "5"},
	{"stream not opened", "x", appservertest.HTTPInfo("responseStreamConnectionFailed", 500), 503,
		"backend_unavailable", "upstream_error", "5"},
	{"stream cut", "x", appservertest.HTTPInfo("responseStreamDisconnected", 0), 503, "backend_unavailable",
		"upstream_error", "5"},
	{"other: cut", "stream disconnected before completion: eof", "other", 503, "backend_unavailable",
		"upstream_error", "5"},
	{"other: silent", "stream disconnected before completion: idle timeout waiting for SSE", "other", 504,
		"timeout_error", "idle_timeout", ""},
	{"other: refused", "invalid prompt", "other", 400, "invalid_request_error", "upstream_rejected", ""},
}

func TestFailedTurns(t *testing.T) {
	var i int
	r := newRig(t, &appservertest.Server{Handler: func(context.Context, *appservertest.Turn) error {
		return &appservertest.Failure{Message: turnFailures[i].message, Info: turnFailures[i].info}
	}})
	for n, tc := range turnFailures {
		i = n
		for kind, body := range map[string]string{"whole": hello(""), "streamed": hello(streaming)} {
			t.Run(tc.name+"/"+kind, func(t *testing.T) {
				resp := r.chatting(t, body)
				assert.Equal(t, tc.status, resp.StatusCode)
				assert.Equal(t, "application/json", resp.Header.Get("Content-Type"))
				assert.Equal(t, tc.retryAfter, resp.Header.Get("Retry-After"))
				assert.Equal(t, tc.retryAfter == "60", resp.Header.Get("X-Should-Retry") == "false")
				e := failure(t, text(t, resp)).Error
				assert.Equal(t, tc.kind, e.Type)
				assert.Equal(t, tc.code, e.Code)
				assert.Equal(t, tc.status == 503, e.Retryable)
				assert.NotEmpty(t, e.Message)
			})
		}
	}
}

// The field at fault has the name that it has in that request.
func TestErrorsNameTheFieldOfTheRequest(t *testing.T) {
	for _, info := range []string{"contextWindowExceeded", "cyberPolicy"} {
		r := newRig(t, &appservertest.Server{Handler: appservertest.Fail("no", info)})
		assert.Equal(t, "messages", *failure(t, text(t, r.chatting(t, hello("")))).Error.Param)
		assert.Equal(t, "input", *failure(t, text(t, r.responding(t, asked("", `"q"`)))).Error.Param)
	}
}

func TestLongUpstreamMessagesAreBounded(t *testing.T) {
	r := newRig(t, &appservertest.Server{Handler: appservertest.Fail(strings.Repeat("é", 10_000), "badRequest")})
	e := failure(t, text(t, r.chatting(t, hello("")))).Error
	assert.LessOrEqual(t, len(e.Message), 600)
	assert.NotContains(t, e.Message, "\ufffd")
}

// endsInError asserts that the stream has text, then one error frame, and no [DONE].
func endsInError(t *testing.T, got []string, kind, code string) {
	t.Helper()
	require.NotEmpty(t, got)
	e := failure(t, got[len(got)-1]).Error
	assert.Equal(t, kind, e.Type)
	assert.Equal(t, code, e.Code)
	for _, f := range got[:len(got)-1] {
		assert.NotContains(t, f, `"error"`)
		assert.NotContains(t, f, `"finish_reason":"`)
		assert.NotEqual(t, "[DONE]", f)
	}
}

func TestErrorAfterTheFirstByteIsAFrame(t *testing.T) {
	r := newRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		turn.Begin("").Delta("so far")
		return &appservertest.Failure{Message: "oops", Info: "internalServerError"}
	}})
	resp := r.chatting(t, hello(streaming), "X-Request-Id", "late")
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	got := frames(t, resp)
	assert.Contains(t, got[1], "so far")
	endsInError(t, got, "backend_unavailable", "upstream_error")
	line := r.log.request(t, "late")
	assert.Equal(t, "upstream_error", line["outcome"])
	assert.InDelta(t, 200, line["status"], 0)
}

func TestWorkerDies(t *testing.T) {
	t.Parallel()
	t.Run("before the first byte", func(t *testing.T) {
		die := func(_ context.Context, turn *appservertest.Turn) error {
			turn.Peer().Disconnect()
			return nil
		}
		for _, body := range []string{hello(""), hello(streaming)} {
			r := newRig(t, &appservertest.Server{Handler: die})
			resp := r.chatting(t, body)
			assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
			assert.NotEmpty(t, resp.Header.Get("Retry-After"))
			e := failure(t, text(t, resp)).Error
			assert.Equal(t, "worker_exited", e.Code)
			assert.True(t, e.Retryable)
		}
	})
	t.Run("while the turn is started", func(t *testing.T) {
		for _, method := range []string{"thread/start", "thread/inject_items", "turn/start"} {
			r := newRig(t, &appservertest.Server{Faults: map[string]appservertest.Fault{method: appservertest.Disconnect}})
			resp := r.chatting(t, hello(streaming))
			assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
			assert.Equal(t, "worker_exited", failure(t, text(t, resp)).Error.Code)
		}
	})
	t.Run("after the first byte", func(t *testing.T) {
		gate := make(chan struct{})
		r := newRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
			turn.Begin("").Delta("so far")
			<-gate
			turn.Peer().Disconnect()
			return nil
		}})
		resp := r.chatting(t, hello(streaming))
		body := bufio.NewReader(resp.Body)
		first := []string{frame(t, body), frame(t, body)}
		assert.Contains(t, first[1], "so far")
		close(gate)
		endsInError(t, frames(t, unread(resp, body)), "backend_unavailable", "worker_exited")
	})
}

func TestWorkerRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		fault      appservertest.Fault
		status     int
		kind, code string
	}{
		"invalid":  {appservertest.Refused(-32600, "no such thing"), 400, "invalid_request_error", "worker_rejected"},
		"internal": {appservertest.Refused(-32603, "oops"), 503, "backend_unavailable", "worker_error"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, &appservertest.Server{Faults: map[string]appservertest.Fault{"turn/start": tc.fault}})
			resp := r.chatting(t, hello(streaming))
			assert.Equal(t, tc.status, resp.StatusCode)
			body := text(t, resp)
			e := failure(t, body).Error
			assert.Equal(t, tc.kind, e.Type)
			assert.Equal(t, tc.code, e.Code)
			assert.NotContains(t, body, "-326", "a JSON-RPC code is nobody's business")
			assert.Equal(t, tc.status == 503, resp.Header.Get("Retry-After") != "")
			assert.Zero(t, r.pool.Inflight())
		})
	}
}

func TestIdleTimeout(t *testing.T) {
	within := func(idle time.Duration) func(*options) { return func(o *options) { o.IdleTimeout = idle } }
	silent := func(text string) *appservertest.Server {
		return &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
			if text != "" {
				turn.Begin("").Delta(text)
			}
			<-ctx.Done() // or the turn would not be interrupted, and the test not end
			return ctx.Err()
		}}
	}
	t.Run("before the first byte", func(t *testing.T) {
		r := newRig(t, silent(""), within(500*time.Millisecond))
		for _, body := range []string{hello(""), hello(streaming)} {
			resp := r.chatting(t, body)
			assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
			e := failure(t, text(t, resp)).Error
			assert.Equal(t, "timeout_error", e.Type)
			assert.Equal(t, "idle_timeout", e.Code)
		}
	})
	t.Run("after it", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, silent("so far"), within(4*time.Second)) // in which a busy machine begins an answer
		endsInError(t, frames(t, r.chatting(t, hello(streaming))), "timeout_error", "idle_timeout")
	})
}

// Silence counts, not duration.
func TestALongTurnIsNotIdle(t *testing.T) {
	t.Parallel()
	const idle = 3 * time.Second // which is far more than the pauses of a worker on a busy machine
	r := newRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		m, tick := turn.Begin(""), time.NewTicker(idle/5)
		defer tick.Stop()
		for range 8 { // longer than the idle timeout
			select {
			case <-tick.C:
				m.Delta("x")
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		m.End()
		return nil
	}}, func(o *options) { o.IdleTimeout, o.Keepalive = idle, idle })
	resp := r.chatting(t, hello(streaming))
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	got := text(t, resp)
	assert.Equal(t, 8, strings.Count(got, `"content":"x"`))
	assert.True(t, strings.HasSuffix(got, "data: [DONE]\n\n"))
	assert.NotContains(t, got, ": keepalive", "the client heard something all the time")
}

// Nor does it matter whether there is an event in what the worker says.
func TestAWorkerThatTalksOfOtherThingsIsNotIdle(t *testing.T) {
	t.Parallel()
	const idle = 3 * time.Second
	r := newRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		tick := time.NewTicker(idle / 8)
		defer tick.Stop()
		for range 10 {
			select {
			case <-tick.C:
				turn.Notify("unknown/notification", map[string]any{})
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		turn.Text("done")
		return nil
	}}, func(o *options) { o.IdleTimeout, o.Keepalive = idle, idle/10 })
	streamed := r.begin(t, hello(streaming)) // with keepalives
	assert.Contains(t, text(t, r.chatting(t, hello(""))), "done")
	assert.Contains(t, text(t, received(t, streamed)), "done")
}

func TestNoWorker(t *testing.T) {
	r := newRig(t, nil)
	for _, resp := range []*http.Response{r.chatting(t, hello("")), r.do(t, http.MethodGet, "/v1/models", "")} {
		assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		assert.Equal(t, "60", resp.Header.Get("Retry-After"), "a person has to act")
		e := failure(t, text(t, resp)).Error
		assert.Equal(t, "worker_not_ready", e.Code)
		assert.Contains(t, e.Message, "no_worker")
		assert.True(t, e.Retryable)
	}
}

func TestNoSuchModel(t *testing.T) {
	r := newRig(t, &appservertest.Server{})
	resp := r.chatting(t, `{"model":"gpt-9","messages":[{"role":"user","content":"x"}]}`)
	assert.Equal(t, http.StatusNotFound, resp.StatusCode)
	e := failure(t, text(t, resp)).Error
	assert.Equal(t, "model_not_found", e.Code)
	assert.Equal(t, "model", *e.Param)
	assert.Contains(t, e.Message, "`gpt-9`")
}
