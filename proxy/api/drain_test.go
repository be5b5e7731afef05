package api_test

import (
	"bufio"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

func TestDrain(t *testing.T) {
	gate := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "first", "last")})
	inflight := r.Chatting(t, apitest.Hello(apitest.Streaming))
	body := bufio.NewReader(inflight.Body)
	apitest.Frame(t, body)
	r.Pool.Drain()

	for _, b := range []string{apitest.Hello(""), apitest.Hello(apitest.Streaming)} {
		resp := r.Chatting(t, b)
		assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		assert.Equal(t, "1", resp.Header.Get("Retry-After"))
		raw := apitest.Text(t, resp)
		assert.Contains(t, raw, `"retryable":true`)
		assert.Equal(t, "draining", apitest.Failure(t, raw).Error.Code)
	}
	resp := r.Do(t, http.MethodGet, "/readyz", "")
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Contains(t, apitest.Text(t, resp), `"reason":"draining"`)
	assert.Equal(t, http.StatusOK, r.Do(t, http.MethodGet, "/livez", "").StatusCode)

	close(gate)
	got := apitest.Frames(t, apitest.Unread(inflight, body))
	assert.Equal(t, "[DONE]", got[len(got)-1], "what was in flight is finished")
	assert.Contains(t, got[len(got)-3], "last")
}

func TestAbort(t *testing.T) {
	gate := make(chan struct{})
	defer close(gate)
	began := make(chan struct{}, 1)
	worker := &appservertest.Server{Handler: apitest.Gated(gate, "first")}
	r := apitest.NewRig(t, worker)
	streamed := r.Chatting(t, apitest.Hello(apitest.Streaming))
	body := bufio.NewReader(streamed.Body)
	apitest.Frame(t, body)
	whole := make(chan *http.Response, 1)
	go func() {
		began <- struct{}{}
		whole <- r.Chatting(t, apitest.Hello(""))
	}()
	apitest.Received(t, began)
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Pool.Inflight() == 2 })
	r.Pool.Drain()
	r.Abort()

	apitest.EndsInError(t, apitest.Frames(t, apitest.Unread(streamed, body)), "backend_unavailable", "draining")
	resp := apitest.Received(t, whole)
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	e := apitest.Failure(t, apitest.Text(t, resp)).Error
	assert.Equal(t, "draining", e.Code)
	assert.Contains(t, e.Message, "send the request again")
}

// With every worker drained by hand requests are refused, and served again
// after the drain is taken back.
func TestEveryWorkerDrained(t *testing.T) {
	t.Parallel()
	r := apitest.NewRig(t, &appservertest.Server{})
	name := r.Pool.Names()[0]
	assert.NoError(t, r.Pool.DrainWorker(name))
	resp := r.Chatting(t, apitest.Hello(""))
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Equal(t, "1", resp.Header.Get("Retry-After"))
	assert.Equal(t, "draining", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	assert.NoError(t, r.Pool.UndrainWorker(name))
	assert.Equal(t, http.StatusOK, r.Chatting(t, apitest.Hello("")).StatusCode)
}
