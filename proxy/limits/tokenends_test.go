package limits_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/media"
)

// talking is a turn that says a hundred words, and then runs until it is interrupted.
func talking(said chan<- struct{}) appservertest.Handler {
	return func(ctx context.Context, turn *appservertest.Turn) error {
		turn.Begin("").Delta(strings.Repeat("word ", 100))
		said <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
}

// codex counts tokens at the end of a turn alone. Without it, what was delivered counts, and the input.
func TestAnswersThatEndWithoutACountCount(t *testing.T) {
	long := strings.Repeat("long ", 100_000) // beyond what is kept to be counted
	bodies := map[string]string{
		"/v1/chat/completions": `{"model":"demo","stream":true,"messages":[{"role":"user","content":"INPUT"}]}`,
		"/v1/responses":        `{"model":"demo","stream":true,"input":"INPUT"}`,
		"/v1/messages":         `{"model":"demo","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"INPUT"}]}`,
	}
	for path, body := range bodies {
		for name, input := range map[string]string{"short": "hello", "long": long} {
			t.Run(path+" "+name, func(t *testing.T) {
				keys, secrets := apitest.WithKeys(t, "alice tokens-per-day=100000000")
				bearer := "Bearer " + secrets[0]
				said := make(chan struct{}, 1)
				r := apitest.NewRig(t, &appservertest.Server{Handler: talking(said)}, func(o *apitest.Options) { o.Keys = keys })
				resp := r.Do(t, http.MethodPost, path, strings.Replace(body, "INPUT", input, 1), "Authorization", bearer)
				apitest.Received(t, said)
				require.NoError(t, resp.Body.Close())
				least := int64(1)
				if name == "long" {
					least = 100_000
				}
				r.Charged(t, bearer, least, 100)
			})
		}
	}
}

// A worker that dies in mid-stream leaves no count.
func TestAnswersThatAWorkerLosesCount(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "alice tokens-per-day=100000")
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		turn.Begin("").Delta(strings.Repeat("word ", 100))
		return apitest.Disconnect(ctx, turn)
	}}, func(o *apitest.Options) { o.Keys = keys })
	bearer := "Bearer " + secrets[0]
	apitest.Text(t, r.Chatting(t, apitest.Hello(apitest.Streaming), "Authorization", bearer))
	r.Charged(t, bearer, 1, 100)
}

// A turn that the model endpoint refuses costs nothing.
func TestRefusedTurnsCountNothing(t *testing.T) {
	keys, secrets := apitest.WithKeys(t, "alice tokens-per-day=100000")
	r := apitest.NewRig(t, &appservertest.Server{Handler: func(context.Context, *appservertest.Turn) error {
		return errors.New("no")
	}}, func(o *apitest.Options) { o.Keys = keys })
	bearer := "Bearer " + secrets[0]
	apitest.Text(t, r.Chatting(t, apitest.Hello(""), "Authorization", bearer, "X-Request-Id", "refused"))
	r.Log.Request(t, "refused")
	assert.Zero(t, apitest.Sampled(apitest.Text(t, r.Do(t, http.MethodGet, "/metrics", "", "Authorization", bearer)),
		`codex_usage_tokens_total{key="alice",kind="input",model="demo"} `))
}

func TestAStoppedChatHasUsage(t *testing.T) {
	interrupted := make(chan string, 1)
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Stopping(interrupted, func(_ context.Context, turn *appservertest.Turn) {
		turn.Text("one two three END four")
	})})
	var answer struct {
		Usage *openai.Usage
	}
	require.NoError(t, json.Unmarshal([]byte(apitest.Text(t, r.Chatting(t, apitest.Hello(`"stop":"END",`)))), &answer))
	apitest.Received(t, interrupted)
	require.NotNil(t, answer.Usage)
	assert.Positive(t, answer.Usage.PromptTokens)
	assert.GreaterOrEqual(t, answer.Usage.CompletionTokens, int64(4))
	assert.Equal(t, answer.Usage.PromptTokens+answer.Usage.CompletionTokens, answer.Usage.TotalTokens)
}

// The address of an old image may lead nowhere any more, and the conversation goes on.
func TestOldImagesThatCannotBeFetched(t *testing.T) {
	requests := make(chan appservertest.Request, 1)
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Telling(requests)}, func(o *apitest.Options) { o.Images = &apitest.Gallery{} })
	const gone = `{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x.example/private"}}]}`
	const ask = `{"role":"user","content":"and now?"}`
	assert.Equal(t, http.StatusOK, r.Chatting(t, `{"model":"demo","messages":[`+gone+`,`+ask+`]}`).StatusCode)
	assert.Contains(t, string(apitest.Received(t, requests).Items[0]), media.OmittedImage)
	assert.Equal(t, http.StatusBadRequest, r.Chatting(t, `{"model":"demo","messages":[`+gone+`]}`).StatusCode)
}
