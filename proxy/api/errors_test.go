package api_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

func TestFailedTurns(t *testing.T) {
	var i int
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(context.Context, *appservertest.Turn) error {
		return &appservertest.Failure{Message: apitest.TurnFailures[i].Message, Info: apitest.TurnFailures[i].Info}
	}})
	for n, tc := range apitest.TurnFailures {
		i = n
		for kind, body := range map[string]string{"whole": apitest.Hello(""), "streamed": apitest.Hello(apitest.Streaming)} {
			t.Run(tc.Name+"/"+kind, func(t *testing.T) {
				resp := r.Chatting(t, body)
				assert.Equal(t, tc.Status, resp.StatusCode)
				assert.Equal(t, "application/json", resp.Header.Get("Content-Type"))
				assert.Equal(t, tc.RetryAfter, resp.Header.Get("Retry-After"))
				assert.Equal(t, tc.RetryAfter == "60", resp.Header.Get("X-Should-Retry") == "false")
				e := apitest.Failure(t, apitest.Text(t, resp)).Error
				assert.Equal(t, tc.Kind, e.Type)
				assert.Equal(t, tc.Code, e.Code)
				assert.Equal(t, tc.Status == 503, e.Retryable)
				assert.NotEmpty(t, e.Message)
			})
		}
	}
}

// The field at fault has the name that it has in that request.
func TestErrorsNameTheFieldOfTheRequest(t *testing.T) {
	for _, info := range []string{"contextWindowExceeded", "cyberPolicy"} {
		r := apitest.NewRig(t, &appservertest.Server{Handler: appservertest.Fail("no", info)})
		assert.Equal(t, "messages", *apitest.Failure(t, apitest.Text(t, r.Chatting(t, apitest.Hello("")))).Error.Param)
		assert.Equal(t, "input", *apitest.Failure(t, apitest.Text(t, r.Responding(t, apitest.Asked("", `"q"`)))).Error.Param)
	}
}

func TestLongUpstreamMessagesAreBounded(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: appservertest.Fail(strings.Repeat("é", 10_000), "badRequest")})
	e := apitest.Failure(t, apitest.Text(t, r.Chatting(t, apitest.Hello("")))).Error
	assert.LessOrEqual(t, len(e.Message), 600)
	assert.NotContains(t, e.Message, "\ufffd")
}

func TestErrorAfterTheFirstByteIsAFrame(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		turn.Begin("").Delta("so far")
		return &appservertest.Failure{Message: "oops", Info: "internalServerError"}
	}})
	resp := r.Chatting(t, apitest.Hello(apitest.Streaming), "X-Request-Id", "late")
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	got := apitest.Frames(t, resp)
	assert.Contains(t, got[1], "so far")
	apitest.EndsInError(t, got, "backend_unavailable", "upstream_error")
	line := r.Log.Request(t, "late")
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
		for _, body := range []string{apitest.Hello(""), apitest.Hello(apitest.Streaming)} {
			r := apitest.NewRig(t, &appservertest.Server{Handler: die})
			resp := r.Chatting(t, body)
			assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
			assert.NotEmpty(t, resp.Header.Get("Retry-After"))
			e := apitest.Failure(t, apitest.Text(t, resp)).Error
			assert.Equal(t, "worker_exited", e.Code)
			assert.True(t, e.Retryable)
		}
	})
	t.Run("while the turn is started", func(t *testing.T) {
		for _, method := range []string{"thread/start", "thread/inject_items", "turn/start"} {
			r := apitest.NewRig(t, &appservertest.Server{Faults: map[string]appservertest.Fault{method: appservertest.Disconnect}})
			resp := r.Chatting(t, apitest.Hello(apitest.Streaming))
			assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
			assert.Equal(t, "worker_exited", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
		}
	})
	t.Run("after the first byte", func(t *testing.T) {
		gate := make(chan struct{})
		r := apitest.NewRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
			turn.Begin("").Delta("so far")
			<-gate
			turn.Peer().Disconnect()
			return nil
		}})
		resp := r.Chatting(t, apitest.Hello(apitest.Streaming))
		body := bufio.NewReader(resp.Body)
		first := []string{apitest.Frame(t, body), apitest.Frame(t, body)}
		assert.Contains(t, first[1], "so far")
		close(gate)
		apitest.EndsInError(t, apitest.Frames(t, apitest.Unread(resp, body)), "backend_unavailable", "worker_exited")
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
			r := apitest.NewRig(t, &appservertest.Server{Faults: map[string]appservertest.Fault{"turn/start": tc.fault}})
			resp := r.Chatting(t, apitest.Hello(apitest.Streaming))
			assert.Equal(t, tc.status, resp.StatusCode)
			body := apitest.Text(t, resp)
			e := apitest.Failure(t, body).Error
			assert.Equal(t, tc.kind, e.Type)
			assert.Equal(t, tc.code, e.Code)
			assert.NotContains(t, body, "-326", "a JSON-RPC code is nobody's business")
			assert.Equal(t, tc.status == 503, resp.Header.Get("Retry-After") != "")
			assert.Zero(t, r.Pool.Inflight())
		})
	}
}

func TestIdleTimeout(t *testing.T) {
	within := func(idle time.Duration) func(*apitest.Options) {
		return func(o *apitest.Options) { o.IdleTimeout = idle }
	}
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
		r := apitest.NewRig(t, silent(""), within(500*time.Millisecond))
		for _, body := range []string{apitest.Hello(""), apitest.Hello(apitest.Streaming)} {
			resp := r.Chatting(t, body)
			assert.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
			e := apitest.Failure(t, apitest.Text(t, resp)).Error
			assert.Equal(t, "timeout_error", e.Type)
			assert.Equal(t, "idle_timeout", e.Code)
		}
	})
	t.Run("after it", func(t *testing.T) {
		t.Parallel()
		r := apitest.NewRig(t, silent("so far"), within(4*time.Second)) // in which a busy machine begins an answer
		apitest.EndsInError(t, apitest.Frames(t, r.Chatting(t, apitest.Hello(apitest.Streaming))), "timeout_error", "idle_timeout")
	})
}

// Silence counts, not duration.
func TestALongTurnIsNotIdle(t *testing.T) {
	t.Parallel()
	const idle = 3 * time.Second // which is far more than the pauses of a worker on a busy machine
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
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
	}}, func(o *apitest.Options) { o.IdleTimeout, o.Keepalive = idle, idle })
	resp := r.Chatting(t, apitest.Hello(apitest.Streaming))
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	got := apitest.Text(t, resp)
	assert.Equal(t, 8, strings.Count(got, `"content":"x"`))
	assert.True(t, strings.HasSuffix(got, "data: [DONE]\n\n"))
	assert.NotContains(t, got, ": keepalive", "the client heard something all the time")
}

// Nor does it matter whether there is an event in what the worker says.
func TestAWorkerThatTalksOfOtherThingsIsNotIdle(t *testing.T) {
	t.Parallel()
	const idle = 3 * time.Second
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
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
	}}, func(o *apitest.Options) { o.IdleTimeout, o.Keepalive = idle, idle/10 })
	streamed := r.Begin(t, apitest.Hello(apitest.Streaming)) // with keepalives
	assert.Contains(t, apitest.Text(t, r.Chatting(t, apitest.Hello(""))), "done")
	assert.Contains(t, apitest.Text(t, apitest.Received(t, streamed)), "done")
}

func TestNoWorker(t *testing.T) {
	r := apitest.NewRig(t, nil)
	for _, resp := range []*http.Response{r.Chatting(t, apitest.Hello("")), r.Do(t, http.MethodGet, "/v1/models", "")} {
		assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		assert.Equal(t, "60", resp.Header.Get("Retry-After"), "a person has to act")
		e := apitest.Failure(t, apitest.Text(t, resp)).Error
		assert.Equal(t, "worker_not_ready", e.Code)
		assert.Contains(t, e.Message, "no_worker")
		assert.True(t, e.Retryable)
	}
}

func TestNoSuchModel(t *testing.T) {
	r := apitest.NewRig(t, &appservertest.Server{})
	resp := r.Chatting(t, `{"model":"gpt-9","messages":[{"role":"user","content":"x"}]}`)
	assert.Equal(t, http.StatusNotFound, resp.StatusCode)
	e := apitest.Failure(t, apitest.Text(t, resp)).Error
	assert.Equal(t, "model_not_found", e.Code)
	assert.Equal(t, "model", *e.Param)
	assert.Contains(t, e.Message, "`gpt-9`")
}
