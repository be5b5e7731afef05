package api

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
)

// stopping is a turn that plays, then runs until it is interrupted, which it reports.
func stopping(interrupted chan<- string, play func(context.Context, *appservertest.Turn)) appservertest.Handler {
	return func(ctx context.Context, turn *appservertest.Turn) error {
		play(ctx, turn)
		<-ctx.Done()
		interrupted <- turn.ThreadID
		return ctx.Err()
	}
}

// observed is the text that a ReAct agent stops at its observation, in pieces.
var observed = []string{"I look.", "\n", "Obs", "ervation", ": invented", " by the model"}

func deltas(turn *appservertest.Turn, pieces []string) {
	m := turn.Begin("")
	for _, piece := range pieces {
		m.Delta(piece)
	}
}

// chatAnswer is the choices of an answer, whole or joined from the chunks of a stream.
type chatAnswer struct {
	Text, Reasoning, Finish map[int]string
	Calls                   []string
}

func readChat(t *testing.T, resp *http.Response) (a chatAnswer) {
	t.Helper()
	type part struct {
		Content          string
		ReasoningContent string `json:"reasoning_content"`
		ToolCalls        []struct {
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	}
	a = chatAnswer{Text: map[int]string{}, Reasoning: map[int]string{}, Finish: map[int]string{}}
	read := func(document string) {
		var got struct {
			Choices []struct {
				Index          int
				Message, Delta part
				FinishReason   string `json:"finish_reason"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(document), &got), document)
		require.NotContains(t, document, `"error"`)
		for _, c := range got.Choices {
			a.Text[c.Index] += c.Message.Content + c.Delta.Content
			a.Reasoning[c.Index] += c.Message.ReasoningContent + c.Delta.ReasoningContent
			a.Finish[c.Index] += c.FinishReason
			for _, call := range append(c.Message.ToolCalls, c.Delta.ToolCalls...) {
				a.Calls = append(a.Calls, call.Function.Name+call.Function.Arguments)
			}
		}
	}
	require.Equal(t, http.StatusOK, resp.StatusCode)
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		read(text(t, resp))
		return a
	}
	got := frames(t, resp)
	require.Equal(t, "[DONE]", got[len(got)-1])
	for _, frame := range got[:len(got)-1] {
		read(frame)
	}
	return a
}

// bothForms runs a test for a whole answer and for a stream.
func bothForms(t *testing.T, do func(t *testing.T, form string)) {
	t.Helper()
	for name, form := range map[string]string{"whole": "", "streamed": streaming} {
		t.Run(name, func(t *testing.T) { do(t, form) })
	}
}

// A stop sequence across deltas ends the answer and the turn, which no error reports.
func TestStop(t *testing.T) {
	bothForms(t, func(t *testing.T, form string) {
		interrupted := make(chan string, 1)
		r := newRig(t, &appservertest.Server{Handler: stopping(interrupted,
			func(_ context.Context, turn *appservertest.Turn) {
				turn.Text("I think.")
				turn.EndResponse(someUsage)
				deltas(turn, observed)
			})})
		resp := r.chatting(t, hello(form+`"stop":["\nObservation:","never"],"stream_options":{"include_usage":true},`),
			"X-Request-Id", "stopped")
		assert.Empty(t, resp.Header.Get("X-Codex-Ignored-Params"))
		got := readChat(t, resp)
		assert.Equal(t, "I think.\n\nI look.", got.Text[0])
		assert.Equal(t, "stop", got.Finish[0])
		received(t, interrupted)
		line := r.log.request(t, "stopped")
		assert.Equal(t, "ok", line["outcome"])
		assert.InDelta(t, 20, line["input_tokens"], 0, "the usage that codex reported before the end")
		assert.NotContains(t, r.log.String(), `"level":"ERROR"`)
		assert.NotContains(t, r.log.String(), `"level":"WARN"`)
		assert.Zero(t, r.pool.Inflight())
		metrics := text(t, r.do(t, http.MethodGet, "/metrics", ""))
		assert.Contains(t, metrics, "codex_turns_total{outcome=\"completed\"} 1\n")
		assert.NotContains(t, metrics, "codex_http_errors_total{")
	})
}

// The text before a stop sequence is sent while the model still writes, and what cannot
// begin a sequence is not held back.
func TestStopHoldsBackNoMore(t *testing.T) {
	gate := make(chan struct{})
	r := newRig(t, &appservertest.Server{Handler: gated(gate, "abc EN", "TRY")})
	resp := r.chatting(t, hello(streaming+`"stop":"END",`))
	body := bufio.NewReader(resp.Body)
	frame(t, body) // the role
	assert.Contains(t, frame(t, body), `"content":"abc "`)
	close(gate)
	assert.Contains(t, frame(t, body), `"content":"ENTRY"`)
	assert.Contains(t, frame(t, body), `"finish_reason":"stop"`)
	assert.Equal(t, "data: [DONE]", frame(t, body))
}

// An answer that ends with the beginning of a sequence is whole, and its thread is kept.
func TestNothingToStop(t *testing.T) {
	bothForms(t, func(t *testing.T, form string) {
		k := &talker{}
		r := newRig(t, &appservertest.Server{Handler: k.answer}, withThreads(4))
		for n := 1; n <= 2; n++ {
			got := readChat(t, r.chatting(t, conversation(form+`"stop":["2x","1x"],`, "", n)))
			assert.Equal(t, "a"+string(rune('0'+n)), got.Text[0])
		}
		assert.Len(t, k.threads, 2)
		assert.Equal(t, k.threads[0], k.threads[1])
	})
}

// A conversation continues from the text that the client has received: the thread, which
// has more of it, is closed.
func TestStopClosesTheThread(t *testing.T) {
	bothForms(t, func(t *testing.T, form string) {
		var mu sync.Mutex
		var turns []appservertest.Request
		var threads []string
		interrupted := make(chan string, 2)
		r := newRig(t, &appservertest.Server{Handler: stopping(interrupted,
			func(_ context.Context, turn *appservertest.Turn) {
				mu.Lock()
				turns, threads = append(turns, turn.Request), append(threads, turn.ThreadID)
				mu.Unlock()
				turn.Text("a1STOP and more")
			})}, withThreads(4))
		extra := form + `"stop":["STOP"],`
		assert.Equal(t, "a1", readChat(t, r.chatting(t, conversation(extra, "", 1))).Text[0])
		received(t, interrupted)
		readChat(t, r.chatting(t, conversation(extra, "", 2)))
		received(t, interrupted)
		mu.Lock()
		defer mu.Unlock()
		assert.NotEqual(t, threads[0], threads[1])
		require.Len(t, turns[1].Items, 3, "the whole history is injected")
		assert.Contains(t, string(turns[1].Items[1]), `"a1"`)
		assert.Contains(t, text(t, r.do(t, http.MethodGet, "/metrics", "")),
			"codex_thread_reuse_total{outcome=\"miss\"} 2\n")
	})
}

// Reasoning and the arguments of tools hold no stop sequence, and a call that comes
// before a sequence is delivered.
func TestStopIsForText(t *testing.T) {
	const tools = `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],`
	bothForms(t, func(t *testing.T, form string) {
		interrupted := make(chan string, 1)
		r := newRig(t, &appservertest.Server{Handler: stopping(interrupted,
			func(ctx context.Context, turn *appservertest.Turn) {
				turn.Reasoning("think END more")
				turn.Call(ctx, "f", `{"a":"END"}`)
				turn.Text("text END more")
			})})
		got := readChat(t, r.chatting(t, hello(form+tools+`"reasoning":{"summary":"auto"},"stop":"END",`)))
		assert.Equal(t, "think END more", got.Reasoning[0])
		assert.Equal(t, "text ", got.Text[0])
		assert.Equal(t, `f{"a":"END"}`, strings.Join(got.Calls, ""))
		assert.Equal(t, "tool_calls", got.Finish[0], "the call waits for its result")
		received(t, interrupted)
	})
}

// Each choice ends by itself.
func TestStopOfEachChoice(t *testing.T) {
	bothForms(t, func(t *testing.T, form string) {
		var mu sync.Mutex
		begun := 0
		interrupted := make(chan string, 1)
		r := newRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
			mu.Lock()
			begun++
			first := begun == 1
			mu.Unlock()
			if !first {
				return answering(someUsage, "whole", " answer")(ctx, turn)
			}
			return stopping(interrupted, func(_ context.Context, turn *appservertest.Turn) {
				turn.Text("cut EN", "D off")
			})(ctx, turn)
		}})
		got := readChat(t, r.chatting(t, hello(form+`"n":2,"stop":["END"],`)))
		assert.ElementsMatch(t, []string{"cut ", "whole answer"}, []string{got.Text[0], got.Text[1]})
		assert.Equal(t, map[int]string{0: "stop", 1: "stop"}, got.Finish)
		received(t, interrupted)
	})
}

// An answer that begins with a stop sequence is empty, and no refusal.
func TestStopAtTheBeginning(t *testing.T) {
	bothForms(t, func(t *testing.T, form string) {
		interrupted := make(chan string, 1)
		r := newRig(t, &appservertest.Server{Handler: stopping(interrupted,
			func(_ context.Context, turn *appservertest.Turn) { turn.Text("END", "less") })})
		resp := r.chatting(t, hello(form+`"stop":"END",`))
		got := readChat(t, resp)
		assert.Empty(t, got.Text[0])
		assert.Equal(t, "stop", got.Finish[0])
		received(t, interrupted)
	})
}

// Text that an attempt held back when it was lost is void.
func TestStopOfALostTurn(t *testing.T) {
	bothForms(t, func(t *testing.T, form string) {
		var mu sync.Mutex
		lost := false
		r := newRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
			mu.Lock()
			first := !lost
			lost = true
			mu.Unlock()
			if first {
				turn.Text("EN")
				return disconnect(ctx, turn)
			}
			turn.Text("Done")
			return nil
		}})
		got := readChat(t, r.chatting(t, hello(form+`"stop":"END",`)))
		assert.Equal(t, "Done", got.Text[0])
		assert.Equal(t, "1", r.retries(t, lostWorker))
	})
}

// A stopped answer counts for the limits and the usage of its key as others do.
func TestStopCounts(t *testing.T) {
	keys, secrets := withKeys(t, "alice requests-per-minute=2 tokens-per-day=1000 concurrent=1")
	interrupted := make(chan string, 1)
	r := newRig(t, &appservertest.Server{Handler: stopping(interrupted,
		func(_ context.Context, turn *appservertest.Turn) {
			turn.Text("I think.")
			turn.EndResponse(someUsage)
			turn.Text("END")
		})}, func(o *options) { o.Keys = keys })
	bearer := "Bearer " + secrets[0]
	for range 2 {
		got := readChat(t, r.chatting(t, hello(`"stop":"END",`), "Authorization", bearer))
		assert.Equal(t, "I think.\n\n", got.Text[0])
		received(t, interrupted)
	}
	resp := r.chatting(t, hello(`"stop":"END",`), "Authorization", bearer)
	assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	assert.Equal(t, "rate_limited", failure(t, text(t, resp)).Error.Code)
	metrics := text(t, r.do(t, http.MethodGet, "/metrics", "", "Authorization", bearer))
	assert.Contains(t, metrics, `codex_usage_requests_total{key="alice",model="demo"} 2`)
	assert.Contains(t, metrics, `codex_usage_tokens_total{key="alice",kind="input",model="demo"} 40`)
}
