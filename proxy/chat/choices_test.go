package chat_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

// together answers when n turns run at the same time, each with its own number.
func together(n int64) (appservertest.Handler, *atomic.Int64) {
	var begun atomic.Int64
	all := make(chan struct{})
	return func(ctx context.Context, turn *appservertest.Turn) error {
		i := begun.Add(1)
		if i == n {
			close(all)
		}
		select {
		case <-all:
		case <-ctx.Done():
			return ctx.Err()
		}
		turn.Text(fmt.Sprintf("answer %d,", i), "end")
		turn.EndResponse(apitest.SomeUsage)
		return nil
	}, &begun
}

func TestSeveralChoices(t *testing.T) {
	handler, _ := together(3)
	r := apitest.NewRig(t, &appservertest.Server{Handler: handler})
	resp := r.Chatting(t, apitest.Hello(`"n":3,`), "X-Request-Id", "three")
	assert.Equal(t, "3", resp.Header.Get("X-Codex-Attempts"))
	var whole struct {
		Choices []struct {
			Index        int
			Message      struct{ Content string }
			FinishReason string `json:"finish_reason"`
		}
		Usage struct {
			TotalTokens int `json:"total_tokens"`
		}
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&whole))
	require.Len(t, whole.Choices, 3)
	seen := map[string]bool{}
	for i, c := range whole.Choices {
		assert.Equal(t, i, c.Index)
		assert.Equal(t, "stop", c.FinishReason)
		assert.True(t, strings.HasSuffix(c.Message.Content, "end"))
		seen[c.Message.Content] = true
	}
	assert.Len(t, seen, 3, "each choice is an answer of its own")
	assert.Equal(t, 3*27, whole.Usage.TotalTokens)
	line := r.Log.Request(t, "three")
	assert.InDelta(t, 60, line["input_tokens"], 0)
	assert.InDelta(t, 3, line["attempts"], 0)
	assert.Equal(t, "default", line["worker"])
	assert.Equal(t, "60", apitest.Metric(t, r, `codex_usage_account_tokens_total{account="default",kind="input"}`))
	assert.Equal(t, "1", apitest.Metric(t, r, `codex_usage_account_requests_total{account="default"}`))
	assert.Zero(t, r.Pool.Inflight())
}

func TestSeveralStreamedChoices(t *testing.T) {
	handler, _ := together(3)
	r := apitest.NewRig(t, &appservertest.Server{Handler: handler})
	resp := r.Chatting(t, apitest.Hello(apitest.Streaming+`"n":3,"stream_options":{"include_usage":true},`))
	assert.NotEmpty(t, resp.Header.Get("X-Codex-Attempts"))
	got := apitest.Frames(t, resp)
	require.Len(t, got, 3*4+2)
	assert.Equal(t, "[DONE]", got[len(got)-1])
	assert.Contains(t, got[len(got)-2], `"choices":[],"usage":{"prompt_tokens":60`)
	told := map[int]string{}
	for _, frame := range got[:len(got)-2] {
		var chunk struct {
			Choices []struct {
				Index int
				Delta struct {
					Role    string
					Content string
				}
				FinishReason string `json:"finish_reason"`
			}
			Usage json.RawMessage
		}
		require.NoError(t, json.Unmarshal([]byte(frame), &chunk))
		require.Len(t, chunk.Choices, 1)
		assert.Equal(t, "null", string(chunk.Usage))
		c := chunk.Choices[0]
		told[c.Index] += c.Delta.Role + c.Delta.Content + c.FinishReason
	}
	require.Len(t, told, 3)
	for _, all := range told {
		assert.Regexp(t, "^assistantanswer [123],endstop$", all)
	}
}

// An answer has all its choices, or is an error.
func TestAFailedChoiceFailsTheRequest(t *testing.T) {
	for kind, body := range map[string]string{"whole": apitest.Hello(`"n":3,`), "streamed": apitest.Hello(apitest.Streaming + `"n":3,`)} {
		t.Run(kind, func(t *testing.T) {
			var begun atomic.Int64
			var interrupted sync.WaitGroup
			interrupted.Add(2)
			r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, _ *appservertest.Turn) error {
				if begun.Add(1) == 3 {
					return &appservertest.Failure{Message: "oops", Info: "serverOverloaded"}
				}
				<-ctx.Done()
				interrupted.Done()
				return ctx.Err()
			}})
			resp := r.Chatting(t, body)
			assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
			assert.Equal(t, "overloaded", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
			interrupted.Wait()
			apitest.Await(t, apitest.Tick(t), func() bool { return r.Pool.Inflight() == 0 })
		})
	}
}

// The error of one choice ends a stream that others have begun.
func TestAChoiceFailsInAStream(t *testing.T) {
	told := make(chan struct{})
	var begun atomic.Int64
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		if begun.Add(1) == 1 {
			turn.Begin("").Delta("so far")
			<-ctx.Done()
			return ctx.Err()
		}
		<-told
		return &appservertest.Failure{Message: "oops", Info: "serverOverloaded"}
	}}, func(o *apitest.Options) { o.Keepalive = 1 })
	resp := r.Chatting(t, apitest.Hello(apitest.Streaming+`"n":2,`), "X-Request-Id", "half")
	close(told)
	apitest.EndsInError(t, apitest.Frames(t, resp), "backend_unavailable", "overloaded")
	assert.Equal(t, "overloaded", r.Log.Request(t, "half")["outcome"])
}

// Each choice that loses its worker runs again.
func TestLostChoicesRunAgain(t *testing.T) {
	var begun atomic.Int64
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		switch begun.Add(1) {
		case 1:
			<-ctx.Done()
			return ctx.Err()
		case 2:
			return apitest.Disconnect(ctx, turn)
		}
		turn.Text("Hello")
		return nil
	}})
	resp := r.Chatting(t, apitest.Hello(`"n":2,`))
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Equal(t, "4", resp.Header.Get("X-Codex-Attempts"))
	assert.Equal(t, 2, strings.Count(apitest.Text(t, resp), `"content":"Hello"`))
	assert.Equal(t, "2", r.Retries(t, apitest.LostWorker))
}

// The client of several choices leaves: each of their turns is interrupted.
func TestClientOfSeveralChoicesLeaves(t *testing.T) {
	began, interrupted := make(chan struct{}, 3), make(chan struct{}, 3)
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		turn.Begin("").Delta("so far")
		began <- struct{}{}
		<-ctx.Done()
		interrupted <- struct{}{}
		return ctx.Err()
	}})
	conn := r.Raw(t, apitest.Hello(apitest.Streaming+`"n":3,`), "X-Request-Id: gone\r\n")
	for range 3 {
		apitest.Received(t, began)
	}
	require.NoError(t, conn.Close())
	for range 3 {
		apitest.Received(t, interrupted)
	}
	assert.Equal(t, "client_gone", r.Log.Request(t, "gone")["outcome"])
	assert.Zero(t, r.Pool.Inflight())
}

// A panic in the goroutine of a choice ends its request: it is logged, the other choices
// are interrupted, and the service goes on.
func TestAChoiceThatPanics(t *testing.T) {
	interrupted := make(chan struct{})
	w := &apitest.Bomb{ResponseRecorder: httptest.NewRecorder()}
	var begun atomic.Int64
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		if begun.Add(1) == 2 {
			w.Armed.Store(true)
			turn.Text(strings.Repeat("x", 1<<20))
			return nil
		}
		<-ctx.Done()
		close(interrupted)
		return ctx.Err()
	}})
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/v1/chat/completions",
		strings.NewReader(apitest.Hello(apitest.Streaming+`"n":2,`)))
	req.RemoteAddr = "127.0.0.1:1"
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", "bang")
	r.Handler().ServeHTTP(w, req)
	assert.Equal(t, http.StatusInternalServerError, w.Code)
	apitest.Received(t, interrupted)
	assert.Equal(t, "internal_error", r.Log.Request(t, "bang")["outcome"])
	assert.Contains(t, r.Log.String(), "panic in a request")
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Pool.Inflight() == 0 && r.Memory.Bytes() == 0 })
}
