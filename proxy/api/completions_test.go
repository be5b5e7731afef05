package api_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

const withUsage = `"stream_options":{"include_usage":true},`

func TestCompletions(t *testing.T) {
	requests := make(chan appservertest.Request, 2)
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		requests <- turn.Request
		turn.Reasoning("hm")
		return apitest.Answering(apitest.SomeUsage, " upon", " a time")(ctx, turn)
	}})
	apitest.BothForms(t, func(t *testing.T, form string) {
		id := fmt.Sprintf("text%d", len(form))
		resp := r.Completing(t, form+withUsage+`"max_tokens":256,"temperature":0.7,"logprobs":null,`, "X-Request-Id", id)
		assert.Equal(t, "max_tokens, temperature", resp.Header.Get("X-Codex-Ignored-Params"))
		assert.Equal(t, "1", resp.Header.Get("X-Codex-Attempts"))
		got := apitest.Completed(t, resp, 1)[0]
		assert.Equal(t, " upon a time", got.Text)
		assert.Equal(t, "stop", got.Finish)
		assert.Equal(t, 27, got.Tokens)
		turn := apitest.Received(t, requests)
		require.Len(t, turn.Items, 1)
		assert.JSONEq(t, `{"type":"message","role":"user","content":[{"type":"input_text","text":"Once"}]}`,
			string(turn.Items[0]))
		line := r.Log.Request(t, id)
		assert.Equal(t, "/v1/completions", line["route"])
		assert.Equal(t, "ok", line["outcome"])
		assert.InDelta(t, 7, line["output_tokens"], 0)
	})
}

// The answer begins with the prompt if the client wants that; stop sequences are searched
// in the answer alone.
func TestEchoedPrompt(t *testing.T) {
	apitest.BothForms(t, func(t *testing.T, form string) {
		r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Answering(apitest.SomeUsage, " upon", " a time")})
		for i, a := range apitest.Completed(t, r.Completing(t, form+`"echo":true,"n":2,"stop":["Once"],`), 2) {
			assert.Equal(t, "Once upon a time", a.Text, "choice %d", i)
		}
	})
}

func TestStopOfACompletion(t *testing.T) {
	apitest.BothForms(t, func(t *testing.T, form string) {
		interrupted := make(chan string, 1)
		r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Stopping(interrupted,
			func(_ context.Context, turn *appservertest.Turn) { apitest.Deltas(turn, apitest.Observed) })})
		got := apitest.Completed(t, r.Completing(t, form+`"stop":["\nObservation"],`), 1)[0]
		assert.Equal(t, "I look.", got.Text)
		assert.Equal(t, "stop", got.Finish)
		apitest.Received(t, interrupted)
	})
}

// There is no field for words that codex withholds.
func TestWithheldCompletion(t *testing.T) {
	apitest.BothForms(t, func(t *testing.T, form string) {
		r := apitest.NewRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
			turn.EndResponse(apitest.SomeUsage)
			return nil
		}})
		got := apitest.Completed(t, r.Completing(t, form), 1)[0]
		assert.Empty(t, got.Text)
		assert.Equal(t, "content_filter", got.Finish)
	})
}

func TestErrorsOfCompletions(t *testing.T) {
	apitest.BothForms(t, func(t *testing.T, form string) {
		r := apitest.NewRig(t, &appservertest.Server{Handler: appservertest.Fail("too long", "contextWindowExceeded")})
		resp := r.Completing(t, form)
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
		e := apitest.Failure(t, apitest.Text(t, resp)).Error
		assert.Equal(t, "context_length_exceeded", e.Code)
		require.NotNil(t, e.Param)
		assert.Equal(t, "prompt", *e.Param)
		resp = r.Completing(t, form+`"suffix":"x",`)
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
		assert.Equal(t, "unsupported_parameter", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	})
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		turn.Text("so far")
		return &appservertest.Failure{Message: "oops", Info: "serverOverloaded"}
	}})
	got := apitest.Frames(t, r.Completing(t, apitest.Streaming))
	apitest.EndsInError(t, got, "backend_unavailable", "overloaded")
}

// Whatever a model says, a completion has OpenAI's form and the model's words.
func TestContractOfRandomCompletions(t *testing.T) {
	s := newSpeaker(t)
	for seed := range uint64(50) {
		says := randomSaying(rand.New(rand.NewPCG(seed, 0)), nil)
		says.messages = append(says.messages, []string{"the end"}) // without words it would seem withheld
		s.mu.Lock()
		s.says = says
		s.mu.Unlock()
		for _, form := range []string{"", apitest.Streaming} {
			got := apitest.Completed(t, s.Completing(t, form+withUsage), 1)[0]
			assert.Equal(t, says.text("\n\n"), got.Text, "seed %d", seed)
			assert.Equal(t, 12, got.Tokens)
		}
	}
}
