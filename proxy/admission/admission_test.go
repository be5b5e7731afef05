package admission_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/probes"
	"codex-proxy/proxy/api/apitest"
	"codex-proxy/workers/dispatch"
)

func TestBusyWorkersAreWaitedFor(t *testing.T) {
	r, gate, finish := apitest.Single(t)
	waiting := r.Later(t, apitest.Hello(apitest.Streaming), "X-Request-Id", "waited")
	report := apitest.Text(t, r.Do(t, http.MethodGet, "/healthz", ""))
	assert.Regexp(t, `"queue":\{"depth":1,"limit":64,"oldest_wait_ms":[0-9.]+\}`, report)
	metrics := apitest.Text(t, r.Do(t, http.MethodGet, "/metrics", ""))
	assert.Contains(t, metrics, "codex_queue_depth 1\n")
	assert.Regexp(t, `codex_queue_oldest_wait_seconds [0-9.e-]+\n`, metrics)
	close(gate)
	finish()
	resp := apitest.Received(t, waiting)
	assert.Equal(t, "1", resp.Header.Get("X-Codex-Attempts"))
	assert.Contains(t, apitest.Text(t, resp), "[DONE]")
	assert.Positive(t, r.Log.Request(t, "waited")["queued_ms"])
	assert.Zero(t, r.Report().Queue.Depth)
}

func TestWaitingEndsAtTheDeadline(t *testing.T) {
	r, gate, finish := apitest.Single(t, func(o *apitest.Options) { o.Queue.Timeout = 30 * time.Millisecond })
	resp := r.Chatting(t, apitest.Hello(""))
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Equal(t, "1", resp.Header.Get("Retry-After"))
	assert.Empty(t, resp.Header.Get("X-Codex-Attempts"), "it was not tried")
	e := apitest.Failure(t, apitest.Text(t, resp)).Error
	assert.Equal(t, "overloaded", e.Code)
	assert.True(t, e.Retryable)
	close(gate)
	finish()
}

// A stream that waits is kept open by comments, and is answered in the end. Without
// comments its client would receive nothing.
func TestWaitingStreamsAreKeptOpen(t *testing.T) {
	for path, body := range map[string]string{
		"/v1/chat/completions": apitest.Hello(apitest.Streaming), "/v1/responses": apitest.Asked(apitest.Streaming, `"q"`),
	} {
		r, gate, finish := apitest.Single(t, func(o *apitest.Options) { o.Keepalive = 10 * time.Millisecond })
		resp := r.Do(t, http.MethodPost, path, body, "X-Request-Id", "waited")
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		assert.Empty(t, resp.Header.Get("X-Codex-Attempts"), "no attempt was made until the header")
		answer := bufio.NewReader(resp.Body)
		for range 3 {
			assert.Equal(t, ": keepalive", apitest.Frame(t, answer))
		}
		close(gate)
		finish()
		rest := apitest.Text(t, apitest.Unread(resp, answer))
		if path == "/v1/responses" {
			list := apitest.Events(t, rest)
			assert.Equal(t, "response.created", list[0].Type)
			assert.Equal(t, "response.completed", list[len(list)-1].Type)
		} else {
			assert.Contains(t, rest, "[DONE]")
		}
		assert.Equal(t, "ok", r.Log.Request(t, "waited")["outcome"])
	}
}

// The refusal of a stream that was kept open is an error in the stream.
func TestWaitingStreamsEndInAnError(t *testing.T) {
	for path, body := range map[string]string{
		"/v1/chat/completions": apitest.Hello(apitest.Streaming), "/v1/responses": apitest.Asked(apitest.Streaming, `"q"`),
	} {
		r, gate, finish := apitest.Single(t, func(o *apitest.Options) { o.Keepalive = 10 * time.Millisecond })
		resp := r.Do(t, http.MethodPost, path, body, "X-Request-Id", "refused")
		r.Pool.Drain()
		got := apitest.Text(t, resp)
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		assert.True(t, strings.HasPrefix(got, ": keepalive\n"))
		if path == "/v1/responses" {
			list := apitest.Events(t, got)
			assert.Equal(t, "response.failed", list[len(list)-1].Type)
		} else {
			assert.Contains(t, got, `"code":"draining"`)
			assert.NotContains(t, got, "[DONE]")
		}
		assert.Equal(t, "draining", r.Log.Request(t, "refused")["outcome"])
		close(gate)
		finish()
	}
}

func TestFullQueueIsTheKeysOwnLoad(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "alice", "bob")
	r, gate, finish := apitest.Single(t, func(o *apitest.Options) {
		o.Queue = dispatch.Queue{Limit: 2, Timeout: apitest.Bound, ReadyTimeout: apitest.Bound}
	})
	r.Keys = keys
	alice, bob := "Bearer "+secrets[0], "Bearer "+secrets[1]
	first, second := r.Later(t, apitest.Hello(""), "Authorization", alice), r.Later(t, apitest.Hello(""), "Authorization", alice)
	refused := func(resp *http.Response) {
		assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
		assert.Equal(t, "1", resp.Header.Get("Retry-After"))
		e := apitest.Failure(t, apitest.Text(t, resp)).Error
		assert.Equal(t, "rate_limit_error", e.Type)
		assert.Equal(t, "concurrency_exceeded", e.Code)
	}
	refused(r.Chatting(t, apitest.Hello(""), "Authorization", alice))
	third := make(chan *http.Response, 1)
	go func() { third <- r.Chatting(t, apitest.Hello(""), "Authorization", bob) }()
	refused(apitest.Received(t, second))
	close(gate)
	finish()
	for _, resp := range []<-chan *http.Response{first, third} {
		assert.Equal(t, http.StatusOK, apitest.Received(t, resp).StatusCode)
	}
}

func TestClientGoesWhileItWaits(t *testing.T) {
	r, gate, finish := apitest.Single(t)
	conn := r.Raw(t, apitest.Hello(""), "X-Request-Id: gone\r\n")
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Report().Queue.Depth == 1 })
	require.NoError(t, conn.Close())
	line := r.Log.Request(t, "gone")
	assert.Equal(t, "client_gone", line["outcome"])
	assert.Zero(t, r.Report().Queue.Depth)
	assert.Equal(t, 1, r.Pool.Inflight())
	close(gate)
	finish()
}

func TestDrainTurnsAwayWhoWaits(t *testing.T) {
	r, gate, finish := apitest.Single(t)
	waiting := r.Later(t, apitest.Hello(""))
	r.Pool.Drain()
	resp := apitest.Received(t, waiting)
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Equal(t, "draining", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	close(gate)
	finish()
}

// Retry-After tells what is known: the pace of the turns, or when systemd
// starts the next worker.
func TestRetryAfterMeansSomething(t *testing.T) {
	began := time.Now()
	r, gate, finish := apitest.Single(t)
	close(gate)
	finish()
	r.Log.Request(t, r.Do(t, http.MethodGet, "/livez", "").Header.Get("X-Request-Id"))
	most := probes.ClampRetry(time.Since(began)) // mostly a second
	assert.GreaterOrEqual(t, r.NextPlace(), time.Second)
	assert.LessOrEqual(t, r.NextPlace(), most, "turns of milliseconds")
	for estimate, want := range map[time.Duration]time.Duration{
		0: time.Second, 1500 * time.Millisecond: 2 * time.Second, time.Hour: time.Minute,
	} {
		assert.Equal(t, want, probes.ClampRetry(estimate))
	}

}

func TestRequestTimeout(t *testing.T) {
	short := func(o *apitest.Options) { o.RequestTimeout = 500 * time.Millisecond }
	hang := func(ctx context.Context, turn *appservertest.Turn) error {
		if strings.Contains(turn.Request.Prompt(), "text") {
			turn.Begin("").Delta("so far")
		}
		<-ctx.Done()
		return ctx.Err()
	}
	body := func(stream bool, prompt string) string {
		return fmt.Sprintf(`{"model":"demo","stream":%t,"messages":[{"role":"user","content":%q}]}`, stream, prompt)
	}
	t.Run("before the first byte", func(t *testing.T) {
		r := apitest.NewRig(t, &appservertest.Server{Handler: hang}, short)
		for _, stream := range []bool{false, true} {
			resp := r.Chatting(t, body(stream, "none"))
			assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
			e := apitest.Failure(t, apitest.Text(t, resp)).Error
			assert.Equal(t, "timeout_error", e.Type)
			assert.Equal(t, "request_timeout", e.Code)
			assert.Contains(t, e.Message, "500ms")
		}
		apitest.Await(t, apitest.Tick(t), func() bool { return r.Pool.Inflight() == 0 })
	})
	t.Run("after it", func(t *testing.T) {
		t.Parallel()
		r := apitest.NewRig(t, &appservertest.Server{Handler: hang}, func(o *apitest.Options) {
			o.RequestTimeout = 4 * time.Second // within which a busy machine begins an answer
		})
		apitest.EndsInError(t, apitest.Frames(t, r.Chatting(t, body(true, "text"))), "timeout_error", "request_timeout")
	})
	t.Run("while it waits", func(t *testing.T) {
		gate := make(chan struct{})
		r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "x")}, short, func(o *apitest.Options) { o.Max = 1 })
		lease, err := r.Pool.Acquire(t.Context(), dispatch.Ask{Model: "demo"})
		require.NoError(t, err)
		defer lease.Release()
		resp := r.Chatting(t, apitest.Hello(""))
		assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
		assert.Equal(t, "request_timeout", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	})
}
