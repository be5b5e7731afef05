package api

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/test/contract"
)

// completing posts a prompt for the demo model to /v1/completions; extra goes in front.
func (r *rig) completing(t *testing.T, extra string, header ...string) *http.Response {
	t.Helper()
	return r.do(t, http.MethodPost, "/v1/completions", `{`+extra+`"model":"demo","prompt":"Once"}`, header...)
}

// completed is an answer of /v1/completions of n choices, judged by OpenAI's schema.
func completed(t *testing.T, resp *http.Response, n int) []contract.Answer {
	t.Helper()
	schema, err := contract.Compile()
	require.NoError(t, err)
	body := text(t, resp)
	require.Equal(t, http.StatusOK, resp.StatusCode, body)
	var answers []contract.Answer
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		answers, err = schema.TextStream(strings.NewReader(body), n)
	} else {
		answers, err = schema.TextCompletion([]byte(body), n)
	}
	require.NoError(t, err, body)
	for _, a := range answers {
		assert.Regexp(t, "^cmpl-[0-9a-f]{24}$", a.ID)
		assert.Equal(t, "demo", a.Model)
		assert.Nil(t, a.Failure)
	}
	return answers
}

const withUsage = `"stream_options":{"include_usage":true},`

func TestCompletions(t *testing.T) {
	requests := make(chan appservertest.Request, 2)
	r := newRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		requests <- turn.Request
		turn.Reasoning("hm")
		return answering(someUsage, " upon", " a time")(ctx, turn)
	}})
	bothForms(t, func(t *testing.T, form string) {
		id := fmt.Sprintf("text%d", len(form))
		resp := r.completing(t, form+withUsage+`"max_tokens":256,"temperature":0.7,"logprobs":null,`, "X-Request-Id", id)
		assert.Equal(t, "max_tokens, temperature", resp.Header.Get("X-Codex-Ignored-Params"))
		assert.Equal(t, "1", resp.Header.Get("X-Codex-Attempts"))
		got := completed(t, resp, 1)[0]
		assert.Equal(t, " upon a time", got.Text)
		assert.Equal(t, "stop", got.Finish)
		assert.Equal(t, 27, got.Tokens)
		turn := received(t, requests)
		require.Len(t, turn.Items, 1)
		assert.JSONEq(t, `{"type":"message","role":"user","content":[{"type":"input_text","text":"Once"}]}`,
			string(turn.Items[0]))
		line := r.log.request(t, id)
		assert.Equal(t, "/v1/completions", line["route"])
		assert.Equal(t, "ok", line["outcome"])
		assert.InDelta(t, 7, line["output_tokens"], 0)
	})
}

// The answer begins with the prompt if the client wants that; stop sequences are searched
// in the answer alone.
func TestEchoedPrompt(t *testing.T) {
	bothForms(t, func(t *testing.T, form string) {
		r := newRig(t, &appservertest.Server{Handler: answering(someUsage, " upon", " a time")})
		for i, a := range completed(t, r.completing(t, form+`"echo":true,"n":2,"stop":["Once"],`), 2) {
			assert.Equal(t, "Once upon a time", a.Text, "choice %d", i)
		}
	})
}

func TestStopOfACompletion(t *testing.T) {
	bothForms(t, func(t *testing.T, form string) {
		interrupted := make(chan string, 1)
		r := newRig(t, &appservertest.Server{Handler: stopping(interrupted,
			func(_ context.Context, turn *appservertest.Turn) { deltas(turn, observed) })})
		got := completed(t, r.completing(t, form+`"stop":["\nObservation"],`), 1)[0]
		assert.Equal(t, "I look.", got.Text)
		assert.Equal(t, "stop", got.Finish)
		received(t, interrupted)
	})
}

// There is no field for words that codex withholds.
func TestWithheldCompletion(t *testing.T) {
	bothForms(t, func(t *testing.T, form string) {
		r := newRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
			turn.EndResponse(someUsage)
			return nil
		}})
		got := completed(t, r.completing(t, form), 1)[0]
		assert.Empty(t, got.Text)
		assert.Equal(t, "content_filter", got.Finish)
	})
}

func TestErrorsOfCompletions(t *testing.T) {
	bothForms(t, func(t *testing.T, form string) {
		r := newRig(t, &appservertest.Server{Handler: appservertest.Fail("too long", "contextWindowExceeded")})
		resp := r.completing(t, form)
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
		e := failure(t, text(t, resp)).Error
		assert.Equal(t, "context_length_exceeded", e.Code)
		require.NotNil(t, e.Param)
		assert.Equal(t, "prompt", *e.Param)
		resp = r.completing(t, form+`"suffix":"x",`)
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
		assert.Equal(t, "unsupported_parameter", failure(t, text(t, resp)).Error.Code)
	})
	r := newRig(t, &appservertest.Server{Handler: func(_ context.Context, turn *appservertest.Turn) error {
		turn.Text("so far")
		return &appservertest.Failure{Message: "oops", Info: "serverOverloaded"}
	}})
	got := frames(t, r.completing(t, streaming))
	endsInError(t, got, "backend_unavailable", "overloaded")
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
		for _, form := range []string{"", streaming} {
			got := completed(t, s.completing(t, form+withUsage), 1)[0]
			assert.Equal(t, says.text("\n\n"), got.Text, "seed %d", seed)
			assert.Equal(t, 12, got.Tokens)
		}
	}
}
