package api

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
	"codex-proxy/workers"
)

// single is a worker with one place that a stream holds until the gate opens.
func single(t *testing.T, changes ...func(*options)) (r *rig, gate chan struct{}, finish func()) {
	t.Helper()
	gate = make(chan struct{})
	r = newRig(t, &appservertest.Server{Handler: gated(gate, "x")}, append(changes, func(o *options) { o.max = 1 })...)
	held := r.chatting(t, hello(streaming))
	body := bufio.NewReader(held.Body)
	frame(t, body)
	return r, gate, func() { assert.Contains(t, text(t, unread(held, body)), "[DONE]") }
}

// later posts from a goroutine of its own.
func (r *rig) later(t *testing.T, body string, header ...string) <-chan *http.Response {
	t.Helper()
	resp := make(chan *http.Response, 1)
	depth := r.Report().Queue.Depth
	go func() { resp <- r.chatting(t, body, header...) }()
	await(t, tick(t), func() bool { return r.Report().Queue.Depth > depth || len(resp) > 0 })
	return resp
}

func TestBusyWorkersAreWaitedFor(t *testing.T) {
	r, gate, finish := single(t)
	waiting := r.later(t, hello(streaming), "X-Request-Id", "waited")
	report := text(t, r.do(t, http.MethodGet, "/healthz", ""))
	assert.Regexp(t, `"queue":\{"depth":1,"limit":64,"oldest_wait_ms":[0-9.]+\}`, report)
	metrics := text(t, r.do(t, http.MethodGet, "/metrics", ""))
	assert.Contains(t, metrics, "codex_queue_depth 1\n")
	assert.Regexp(t, `codex_queue_oldest_wait_seconds [0-9.e-]+\n`, metrics)
	close(gate)
	finish()
	resp := received(t, waiting)
	assert.Equal(t, "1", resp.Header.Get("X-Codex-Attempts"))
	assert.Contains(t, text(t, resp), "[DONE]")
	assert.Positive(t, r.log.request(t, "waited")["queued_ms"])
	assert.Zero(t, r.Report().Queue.Depth)
}

func TestWaitingEndsAtTheDeadline(t *testing.T) {
	r, gate, finish := single(t, func(o *options) { o.queue.Timeout = 30 * time.Millisecond })
	resp := r.chatting(t, hello(""))
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Equal(t, "1", resp.Header.Get("Retry-After"))
	assert.Empty(t, resp.Header.Get("X-Codex-Attempts"), "it was not tried")
	e := failure(t, text(t, resp)).Error
	assert.Equal(t, "overloaded", e.Code)
	assert.True(t, e.Retryable)
	close(gate)
	finish()
}

// A stream that waits is kept open by comments, and is answered in the end. Without
// comments its client would receive nothing.
func TestWaitingStreamsAreKeptOpen(t *testing.T) {
	for path, body := range map[string]string{
		"/v1/chat/completions": hello(streaming), "/v1/responses": asked(streaming, `"q"`),
	} {
		r, gate, finish := single(t, func(o *options) { o.Keepalive = 10 * time.Millisecond })
		resp := r.do(t, http.MethodPost, path, body, "X-Request-Id", "waited")
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		assert.Empty(t, resp.Header.Get("X-Codex-Attempts"), "no attempt was made until the header")
		answer := bufio.NewReader(resp.Body)
		for range 3 {
			assert.Equal(t, ": keepalive", frame(t, answer))
		}
		close(gate)
		finish()
		rest := text(t, unread(resp, answer))
		if path == "/v1/responses" {
			list := events(t, rest)
			assert.Equal(t, "response.created", list[0].Type)
			assert.Equal(t, "response.completed", list[len(list)-1].Type)
		} else {
			assert.Contains(t, rest, "[DONE]")
		}
		assert.Equal(t, "ok", r.log.request(t, "waited")["outcome"])
	}
}

// The refusal of a stream that was kept open is an error in the stream.
func TestWaitingStreamsEndInAnError(t *testing.T) {
	for path, body := range map[string]string{
		"/v1/chat/completions": hello(streaming), "/v1/responses": asked(streaming, `"q"`),
	} {
		r, gate, finish := single(t, func(o *options) { o.Keepalive = 10 * time.Millisecond })
		resp := r.do(t, http.MethodPost, path, body, "X-Request-Id", "refused")
		r.pool.Drain()
		got := text(t, resp)
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		assert.True(t, strings.HasPrefix(got, ": keepalive\n"))
		if path == "/v1/responses" {
			list := events(t, got)
			assert.Equal(t, "response.failed", list[len(list)-1].Type)
		} else {
			assert.Contains(t, got, `"code":"draining"`)
			assert.NotContains(t, got, "[DONE]")
		}
		assert.Equal(t, "draining", r.log.request(t, "refused")["outcome"])
		close(gate)
		finish()
	}
}

func TestFullQueueIsTheKeysOwnLoad(t *testing.T) {
	keys, secrets := withKeys(t, "alice", "bob")
	r, gate, finish := single(t, func(o *options) { o.queue = workers.Queue{Limit: 2, Timeout: bound, ReadyTimeout: bound} })
	r.Keys = keys
	alice, bob := "Bearer "+secrets[0], "Bearer "+secrets[1]
	first, second := r.later(t, hello(""), "Authorization", alice), r.later(t, hello(""), "Authorization", alice)
	refused := func(resp *http.Response) {
		assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
		assert.Equal(t, "1", resp.Header.Get("Retry-After"))
		e := failure(t, text(t, resp)).Error
		assert.Equal(t, "rate_limit_error", e.Type)
		assert.Equal(t, "concurrency_exceeded", e.Code)
	}
	refused(r.chatting(t, hello(""), "Authorization", alice))
	third := make(chan *http.Response, 1)
	go func() { third <- r.chatting(t, hello(""), "Authorization", bob) }()
	refused(received(t, second))
	close(gate)
	finish()
	for _, resp := range []<-chan *http.Response{first, third} {
		assert.Equal(t, http.StatusOK, received(t, resp).StatusCode)
	}
}

func TestClientGoesWhileItWaits(t *testing.T) {
	r, gate, finish := single(t)
	conn := r.raw(t, hello(""), "X-Request-Id: gone\r\n")
	await(t, tick(t), func() bool { return r.Report().Queue.Depth == 1 })
	require.NoError(t, conn.Close())
	line := r.log.request(t, "gone")
	assert.Equal(t, "client_gone", line["outcome"])
	assert.Zero(t, r.Report().Queue.Depth)
	assert.Equal(t, 1, r.pool.Inflight())
	close(gate)
	finish()
}

func TestDrainTurnsAwayWhoWaits(t *testing.T) {
	r, gate, finish := single(t)
	waiting := r.later(t, hello(""))
	r.pool.Drain()
	resp := received(t, waiting)
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Equal(t, "draining", failure(t, text(t, resp)).Error.Code)
	close(gate)
	finish()
}

// Retry-After tells what is known: the pace of the turns, or when systemd
// starts the next worker.
func TestRetryAfterMeansSomething(t *testing.T) {
	began := time.Now()
	r, gate, finish := single(t)
	close(gate)
	finish()
	r.log.request(t, r.do(t, http.MethodGet, "/livez", "").Header.Get("X-Request-Id"))
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
	short := func(o *options) { o.RequestTimeout = 500 * time.Millisecond }
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
		r := newRig(t, &appservertest.Server{Handler: hang}, short)
		for _, stream := range []bool{false, true} {
			resp := r.chatting(t, body(stream, "none"))
			assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
			e := failure(t, text(t, resp)).Error
			assert.Equal(t, "timeout_error", e.Type)
			assert.Equal(t, "request_timeout", e.Code)
			assert.Contains(t, e.Message, "500ms")
		}
		await(t, tick(t), func() bool { return r.pool.Inflight() == 0 })
	})
	t.Run("after it", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, &appservertest.Server{Handler: hang}, func(o *options) {
			o.RequestTimeout = 4 * time.Second // within which a busy machine begins an answer
		})
		endsInError(t, frames(t, r.chatting(t, body(true, "text"))), "timeout_error", "request_timeout")
	})
	t.Run("while it waits", func(t *testing.T) {
		gate := make(chan struct{})
		r := newRig(t, &appservertest.Server{Handler: gated(gate, "x")}, short, func(o *options) { o.max = 1 })
		lease, err := r.pool.Acquire(t.Context(), workers.Ask{Model: "demo"})
		require.NoError(t, err)
		defer lease.Release()
		resp := r.chatting(t, hello(""))
		assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
		assert.Equal(t, "request_timeout", failure(t, text(t, resp)).Error.Code)
	})
}
