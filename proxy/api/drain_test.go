package api

import (
	"bufio"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/codex/appservertest"
)

func TestDrain(t *testing.T) {
	gate := make(chan struct{})
	r := newRig(t, &appservertest.Server{Handler: gated(gate, "first", "last")})
	inflight := r.chatting(t, hello(streaming))
	body := bufio.NewReader(inflight.Body)
	frame(t, body)
	r.pool.Drain()

	for _, b := range []string{hello(""), hello(streaming)} {
		resp := r.chatting(t, b)
		assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		assert.Equal(t, "1", resp.Header.Get("Retry-After"))
		raw := text(t, resp)
		assert.Contains(t, raw, `"retryable":true`)
		assert.Equal(t, "draining", failure(t, raw).Error.Code)
	}
	resp := r.do(t, http.MethodGet, "/readyz", "")
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Contains(t, text(t, resp), `"reason":"draining"`)
	assert.Equal(t, http.StatusOK, r.do(t, http.MethodGet, "/livez", "").StatusCode)

	close(gate)
	got := frames(t, unread(inflight, body))
	assert.Equal(t, "[DONE]", got[len(got)-1], "what was in flight is finished")
	assert.Contains(t, got[len(got)-3], "last")
}

func TestAbort(t *testing.T) {
	gate := make(chan struct{})
	defer close(gate)
	began := make(chan struct{}, 1)
	worker := &appservertest.Server{Handler: gated(gate, "first")}
	r := newRig(t, worker)
	streamed := r.chatting(t, hello(streaming))
	body := bufio.NewReader(streamed.Body)
	frame(t, body)
	whole := make(chan *http.Response, 1)
	go func() {
		began <- struct{}{}
		whole <- r.chatting(t, hello(""))
	}()
	received(t, began)
	await(t, tick(t), func() bool { return r.pool.Inflight() == 2 })
	r.pool.Drain()
	r.Abort()

	endsInError(t, frames(t, unread(streamed, body)), "backend_unavailable", "draining")
	resp := received(t, whole)
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	e := failure(t, text(t, resp)).Error
	assert.Equal(t, "draining", e.Code)
	assert.Contains(t, e.Message, "send the request again")
}

// With every worker drained by hand requests are refused, and served again
// after the drain is taken back.
func TestEveryWorkerDrained(t *testing.T) {
	t.Parallel()
	r := newRig(t, &appservertest.Server{})
	name := r.pool.Names()[0]
	assert.NoError(t, r.pool.DrainWorker(name))
	resp := r.chatting(t, hello(""))
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Equal(t, "1", resp.Header.Get("Retry-After"))
	assert.Equal(t, "draining", failure(t, text(t, resp)).Error.Code)
	assert.NoError(t, r.pool.UndrainWorker(name))
	assert.Equal(t, http.StatusOK, r.chatting(t, hello("")).StatusCode)
}
