package chat_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

// A stop sequence across deltas ends the answer and the turn, which no error reports.
func TestStop(t *testing.T) {
	apitest.BothForms(t, func(t *testing.T, form string) {
		interrupted := make(chan string, 1)
		r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Stopping(interrupted,
			func(_ context.Context, turn *appservertest.Turn) {
				turn.Text("I think.")
				turn.EndResponse(apitest.SomeUsage)
				apitest.Deltas(turn, apitest.Observed)
			})})
		resp := r.Chatting(t, apitest.Hello(form+`"stop":["\nObservation:","never"],"stream_options":{"include_usage":true},`),
			"X-Request-Id", "stopped")
		assert.Empty(t, resp.Header.Get("X-Codex-Ignored-Params"))
		got := apitest.ReadChat(t, resp)
		assert.Equal(t, "I think.\n\nI look.", got.Text[0])
		assert.Equal(t, "stop", got.Finish[0])
		apitest.Received(t, interrupted)
		line := r.Log.Request(t, "stopped")
		assert.Equal(t, "ok", line["outcome"])
		assert.InDelta(t, 20, line["input_tokens"], 0, "the usage that codex reported before the end")
		assert.NotContains(t, r.Log.String(), `"level":"ERROR"`)
		assert.NotContains(t, r.Log.String(), `"level":"WARN"`)
		assert.Zero(t, r.Pool.Inflight())
		metrics := apitest.Text(t, r.Do(t, http.MethodGet, "/metrics", ""))
		assert.Contains(t, metrics, "codex_turns_total{outcome=\"completed\"} 1\n")
		assert.NotContains(t, metrics, "codex_http_errors_total{")
	})
}

// The text before a stop sequence is sent while the model still writes, and what cannot
// begin a sequence is not held back.
func TestStopHoldsBackNoMore(t *testing.T) {
	gate := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "abc EN", "TRY")})
	resp := r.Chatting(t, apitest.Hello(apitest.Streaming+`"stop":"END",`))
	body := bufio.NewReader(resp.Body)
	apitest.Frame(t, body) // the role
	assert.Contains(t, apitest.Frame(t, body), `"content":"abc "`)
	close(gate)
	assert.Contains(t, apitest.Frame(t, body), `"content":"ENTRY"`)
	assert.Contains(t, apitest.Frame(t, body), `"finish_reason":"stop"`)
	assert.Equal(t, "data: [DONE]", apitest.Frame(t, body))
}

// An answer that ends with the beginning of a sequence is whole, and its thread is kept.
func TestNothingToStop(t *testing.T) {
	apitest.BothForms(t, func(t *testing.T, form string) {
		k := &apitest.Talker{}
		r := apitest.NewRig(t, &appservertest.Server{Handler: k.Answer}, apitest.WithThreads(4))
		for n := 1; n <= 2; n++ {
			got := apitest.ReadChat(t, r.Chatting(t, apitest.Conversation(form+`"stop":["2x","1x"],`, "", n)))
			assert.Equal(t, "a"+string(rune('0'+n)), got.Text[0])
		}
		assert.Len(t, k.Threads, 2)
		assert.Equal(t, k.Threads[0], k.Threads[1])
	})
}

// A conversation continues from the text that the client has received: the thread, which
// has more of it, is closed.
func TestStopClosesTheThread(t *testing.T) {
	apitest.BothForms(t, func(t *testing.T, form string) {
		var mu sync.Mutex
		var turns []appservertest.Request
		var threads []string
		interrupted := make(chan string, 2)
		r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Stopping(interrupted,
			func(_ context.Context, turn *appservertest.Turn) {
				mu.Lock()
				turns, threads = append(turns, turn.Request), append(threads, turn.ThreadID)
				mu.Unlock()
				turn.Text("a1STOP and more")
			})}, apitest.WithThreads(4))
		extra := form + `"stop":["STOP"],`
		assert.Equal(t, "a1", apitest.ReadChat(t, r.Chatting(t, apitest.Conversation(extra, "", 1))).Text[0])
		apitest.Received(t, interrupted)
		apitest.ReadChat(t, r.Chatting(t, apitest.Conversation(extra, "", 2)))
		apitest.Received(t, interrupted)
		mu.Lock()
		defer mu.Unlock()
		assert.NotEqual(t, threads[0], threads[1])
		require.Len(t, turns[1].Items, 3, "the whole history is injected")
		assert.Contains(t, string(turns[1].Items[1]), `"a1"`)
		assert.Contains(t, apitest.Text(t, r.Do(t, http.MethodGet, "/metrics", "")),
			"codex_thread_reuse_total{outcome=\"miss\"} 2\n")
	})
}

// Reasoning and the arguments of tools hold no stop sequence, and a call that comes
// before a sequence is delivered.
func TestStopIsForText(t *testing.T) {
	const tools = `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],`
	apitest.BothForms(t, func(t *testing.T, form string) {
		interrupted := make(chan string, 1)
		r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Stopping(interrupted,
			func(ctx context.Context, turn *appservertest.Turn) {
				turn.Reasoning("think END more")
				turn.Call(ctx, "f", `{"a":"END"}`)
				turn.Text("text END more")
			})})
		got := apitest.ReadChat(t, r.Chatting(t, apitest.Hello(form+tools+`"reasoning":{"summary":"auto"},"stop":"END",`)))
		assert.Equal(t, "think END more", got.Reasoning[0])
		assert.Equal(t, "text ", got.Text[0])
		assert.Equal(t, `f{"a":"END"}`, strings.Join(got.Calls, ""))
		assert.Equal(t, "tool_calls", got.Finish[0], "the call waits for its result")
		apitest.Received(t, interrupted)
	})
}

// Each choice ends by itself.
func TestStopOfEachChoice(t *testing.T) {
	apitest.BothForms(t, func(t *testing.T, form string) {
		var mu sync.Mutex
		begun := 0
		interrupted := make(chan string, 1)
		r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
			mu.Lock()
			begun++
			first := begun == 1
			mu.Unlock()
			if !first {
				return apitest.Answering(apitest.SomeUsage, "whole", " answer")(ctx, turn)
			}
			return apitest.Stopping(interrupted, func(_ context.Context, turn *appservertest.Turn) {
				turn.Text("cut EN", "D off")
			})(ctx, turn)
		}})
		got := apitest.ReadChat(t, r.Chatting(t, apitest.Hello(form+`"n":2,"stop":["END"],`)))
		assert.ElementsMatch(t, []string{"cut ", "whole answer"}, []string{got.Text[0], got.Text[1]})
		assert.Equal(t, map[int]string{0: "stop", 1: "stop"}, got.Finish)
		apitest.Received(t, interrupted)
	})
}

// An answer that begins with a stop sequence is empty, and no refusal.
func TestStopAtTheBeginning(t *testing.T) {
	apitest.BothForms(t, func(t *testing.T, form string) {
		interrupted := make(chan string, 1)
		r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Stopping(interrupted,
			func(_ context.Context, turn *appservertest.Turn) { turn.Text("END", "less") })})
		resp := r.Chatting(t, apitest.Hello(form+`"stop":"END",`))
		got := apitest.ReadChat(t, resp)
		assert.Empty(t, got.Text[0])
		assert.Equal(t, "stop", got.Finish[0])
		apitest.Received(t, interrupted)
	})
}

// Text that an attempt held back when it was lost is void.
func TestStopOfALostTurn(t *testing.T) {
	apitest.BothForms(t, func(t *testing.T, form string) {
		var mu sync.Mutex
		lost := false
		r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
			mu.Lock()
			first := !lost
			lost = true
			mu.Unlock()
			if first {
				turn.Text("EN")
				return apitest.Disconnect(ctx, turn)
			}
			turn.Text("Done")
			return nil
		}})
		got := apitest.ReadChat(t, r.Chatting(t, apitest.Hello(form+`"stop":"END",`)))
		assert.Equal(t, "Done", got.Text[0])
		assert.Equal(t, "1", r.Retries(t, apitest.LostWorker))
	})
}

// A stopped answer counts for the limits and the usage of its key as others do.
func TestStopCounts(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "alice requests-per-minute=2 tokens-per-day=1000 concurrent=1")
	interrupted := make(chan string, 1)
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Stopping(interrupted,
		func(_ context.Context, turn *appservertest.Turn) {
			turn.Text("I think.")
			turn.EndResponse(apitest.SomeUsage)
			turn.Text("END")
		})}, func(o *apitest.Options) { o.Keys = keys })
	bearer := "Bearer " + secrets[0]
	for range 2 {
		got := apitest.ReadChat(t, r.Chatting(t, apitest.Hello(`"stop":"END",`), "Authorization", bearer))
		assert.Equal(t, "I think.\n\n", got.Text[0])
		apitest.Received(t, interrupted)
	}
	resp := r.Chatting(t, apitest.Hello(`"stop":"END",`), "Authorization", bearer)
	assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	assert.Equal(t, "rate_limited", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	metrics := apitest.Text(t, r.Do(t, http.MethodGet, "/metrics", "", "Authorization", bearer))
	assert.Contains(t, metrics, `codex_usage_requests_total{key="alice",model="demo"} 2`)
	assert.Contains(t, metrics, `codex_usage_tokens_total{key="alice",kind="input",model="demo"} 40`)
}
