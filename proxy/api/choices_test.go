package api

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
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
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
		turn.EndResponse(someUsage)
		return nil
	}, &begun
}

func TestSeveralChoices(t *testing.T) {
	handler, _ := together(3)
	r := newRig(t, &appservertest.Server{Handler: handler})
	resp := r.chatting(t, hello(`"n":3,`), "X-Request-Id", "three")
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
	line := r.log.request(t, "three")
	assert.InDelta(t, 60, line["input_tokens"], 0)
	assert.InDelta(t, 3, line["attempts"], 0)
	assert.Equal(t, "default", line["worker"])
	assert.Equal(t, "60", metric(t, r, `codex_usage_account_tokens_total{account="default",kind="input"}`))
	assert.Equal(t, "1", metric(t, r, `codex_usage_account_requests_total{account="default"}`))
	assert.Zero(t, r.pool.Inflight())
}

func TestSeveralStreamedChoices(t *testing.T) {
	handler, _ := together(3)
	r := newRig(t, &appservertest.Server{Handler: handler})
	resp := r.chatting(t, hello(streaming+`"n":3,"stream_options":{"include_usage":true},`))
	assert.NotEmpty(t, resp.Header.Get("X-Codex-Attempts"))
	got := frames(t, resp)
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
	for kind, body := range map[string]string{"whole": hello(`"n":3,`), "streamed": hello(streaming + `"n":3,`)} {
		t.Run(kind, func(t *testing.T) {
			var begun atomic.Int64
			var interrupted sync.WaitGroup
			interrupted.Add(2)
			r := newRig(t, &appservertest.Server{Handler: func(ctx context.Context, _ *appservertest.Turn) error {
				if begun.Add(1) == 3 {
					return &appservertest.Failure{Message: "oops", Info: "serverOverloaded"}
				}
				<-ctx.Done()
				interrupted.Done()
				return ctx.Err()
			}})
			resp := r.chatting(t, body)
			assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
			assert.Equal(t, "overloaded", failure(t, text(t, resp)).Error.Code)
			interrupted.Wait()
			await(t, tick(t), func() bool { return r.pool.Inflight() == 0 })
		})
	}
}

// The error of one choice ends a stream that others have begun.
func TestAChoiceFailsInAStream(t *testing.T) {
	told := make(chan struct{})
	var begun atomic.Int64
	r := newRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		if begun.Add(1) == 1 {
			turn.Begin("").Delta("so far")
			<-ctx.Done()
			return ctx.Err()
		}
		<-told
		return &appservertest.Failure{Message: "oops", Info: "serverOverloaded"}
	}}, func(o *options) { o.Keepalive = 1 })
	resp := r.chatting(t, hello(streaming+`"n":2,`), "X-Request-Id", "half")
	close(told)
	endsInError(t, frames(t, resp), "backend_unavailable", "overloaded")
	assert.Equal(t, "overloaded", r.log.request(t, "half")["outcome"])
}

// Each choice that loses its worker runs again.
func TestLostChoicesRunAgain(t *testing.T) {
	var begun atomic.Int64
	r := newRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		switch begun.Add(1) {
		case 1:
			<-ctx.Done()
			return ctx.Err()
		case 2:
			return disconnect(ctx, turn)
		}
		turn.Text("Hello")
		return nil
	}})
	resp := r.chatting(t, hello(`"n":2,`))
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Equal(t, "4", resp.Header.Get("X-Codex-Attempts"))
	assert.Equal(t, 2, strings.Count(text(t, resp), `"content":"Hello"`))
	assert.Equal(t, "2", r.retries(t, lostWorker))
}

// The client of several choices leaves: each of their turns is interrupted.
func TestClientOfSeveralChoicesLeaves(t *testing.T) {
	began, interrupted := make(chan struct{}, 3), make(chan struct{}, 3)
	r := newRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		turn.Begin("").Delta("so far")
		began <- struct{}{}
		<-ctx.Done()
		interrupted <- struct{}{}
		return ctx.Err()
	}})
	conn := r.raw(t, hello(streaming+`"n":3,`), "X-Request-Id: gone\r\n")
	for range 3 {
		received(t, began)
	}
	require.NoError(t, conn.Close())
	for range 3 {
		received(t, interrupted)
	}
	assert.Equal(t, "client_gone", r.log.request(t, "gone")["outcome"])
	assert.Zero(t, r.pool.Inflight())
}

// A panic in the goroutine of a choice ends its request: it is logged, the other choices
// are interrupted, and the service goes on.
func TestAChoiceThatPanics(t *testing.T) {
	interrupted := make(chan struct{})
	w := &bomb{ResponseRecorder: httptest.NewRecorder()}
	var begun atomic.Int64
	r := newRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		if begun.Add(1) == 2 {
			w.armed.Store(true)
			turn.Text(strings.Repeat("x", 1<<20))
			return nil
		}
		<-ctx.Done()
		close(interrupted)
		return ctx.Err()
	}})
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/v1/chat/completions",
		strings.NewReader(hello(streaming+`"n":2,`)))
	req.RemoteAddr = "127.0.0.1:1"
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", "bang")
	r.Handler().ServeHTTP(w, req)
	assert.Equal(t, http.StatusInternalServerError, w.Code)
	received(t, interrupted)
	assert.Equal(t, "internal_error", r.log.request(t, "bang")["outcome"])
	assert.Contains(t, r.log.String(), "panic in a request")
	await(t, tick(t), func() bool { return r.pool.Inflight() == 0 && r.Memory.Bytes() == 0 })
}

// bomb is an answer that panics once when it is armed.
type bomb struct {
	*httptest.ResponseRecorder
	armed atomic.Bool
}

func (b *bomb) Header() http.Header {
	if b.armed.CompareAndSwap(true, false) {
		panic("boom")
	}
	return b.ResponseRecorder.Header()
}

// SetReadDeadline is for http.ResponseController.
func (*bomb) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline is for http.ResponseController.
func (*bomb) SetWriteDeadline(time.Time) error { return nil }
