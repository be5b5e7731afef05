package api

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
	"codex-proxy/proxy/openai"
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

// charged waits until the tokens of the key have reached those numbers, at least.
func (r *rig) charged(t *testing.T, bearer string, input, output int64) {
	t.Helper()
	await(t, tick(t), func() bool {
		resp := text(t, r.do(t, http.MethodGet, "/metrics", "", "Authorization", bearer))
		return sampled(resp, `codex_usage_tokens_total{key="alice",kind="input",model="demo"} `) >= input &&
			sampled(resp, `codex_usage_tokens_total{key="alice",kind="output",model="demo"} `) >= output
	})
}

func sampled(exposition, name string) (n int64) {
	_, rest, _ := strings.Cut(exposition, name)
	line, _, _ := strings.Cut(rest, "\n")
	_ = json.Unmarshal([]byte(line), &n)
	return n
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
				keys, secrets := withKeys(t, "alice tokens-per-day=100000000")
				bearer := "Bearer " + secrets[0]
				said := make(chan struct{}, 1)
				r := newRig(t, &appservertest.Server{Handler: talking(said)}, func(o *options) { o.Keys = keys })
				resp := r.do(t, http.MethodPost, path, strings.Replace(body, "INPUT", input, 1), "Authorization", bearer)
				received(t, said)
				require.NoError(t, resp.Body.Close())
				least := int64(1)
				if name == "long" {
					least = 100_000
				}
				r.charged(t, bearer, least, 100)
			})
		}
	}
}

// A worker that dies in mid-stream leaves no count.
func TestAnswersThatAWorkerLosesCount(t *testing.T) {
	keys, secrets := withKeys(t, "alice tokens-per-day=100000")
	r := newRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		turn.Begin("").Delta(strings.Repeat("word ", 100))
		return disconnect(ctx, turn)
	}}, func(o *options) { o.Keys = keys })
	bearer := "Bearer " + secrets[0]
	text(t, r.chatting(t, hello(streaming), "Authorization", bearer))
	r.charged(t, bearer, 1, 100)
}

// A turn that the model endpoint refuses costs nothing.
func TestRefusedTurnsCountNothing(t *testing.T) {
	keys, secrets := withKeys(t, "alice tokens-per-day=100000")
	r := newRig(t, &appservertest.Server{Handler: func(context.Context, *appservertest.Turn) error {
		return errors.New("no")
	}}, func(o *options) { o.Keys = keys })
	bearer := "Bearer " + secrets[0]
	text(t, r.chatting(t, hello(""), "Authorization", bearer, "X-Request-Id", "refused"))
	r.log.request(t, "refused")
	assert.Zero(t, sampled(text(t, r.do(t, http.MethodGet, "/metrics", "", "Authorization", bearer)),
		`codex_usage_tokens_total{key="alice",kind="input",model="demo"} `))
}

func TestAStoppedChatHasUsage(t *testing.T) {
	interrupted := make(chan string, 1)
	r := newRig(t, &appservertest.Server{Handler: stopping(interrupted, func(_ context.Context, turn *appservertest.Turn) {
		turn.Text("one two three END four")
	})})
	var answer struct {
		Usage *openai.Usage
	}
	require.NoError(t, json.Unmarshal([]byte(text(t, r.chatting(t, hello(`"stop":"END",`)))), &answer))
	received(t, interrupted)
	require.NotNil(t, answer.Usage)
	assert.Positive(t, answer.Usage.PromptTokens)
	assert.GreaterOrEqual(t, answer.Usage.CompletionTokens, int64(4))
	assert.Equal(t, answer.Usage.PromptTokens+answer.Usage.CompletionTokens, answer.Usage.TotalTokens)
}

// The address of an old image may lead nowhere any more, and the conversation goes on.
func TestOldImagesThatCannotBeFetched(t *testing.T) {
	requests := make(chan appservertest.Request, 1)
	r := newRig(t, &appservertest.Server{Handler: telling(requests)}, func(o *options) { o.Images = &gallery{} })
	const gone = `{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x.example/private"}}]}`
	const ask = `{"role":"user","content":"and now?"}`
	assert.Equal(t, http.StatusOK, r.chatting(t, `{"model":"demo","messages":[`+gone+`,`+ask+`]}`).StatusCode)
	assert.Contains(t, string(received(t, requests).Items[0]), openai.OmittedImage)
	assert.Equal(t, http.StatusBadRequest, r.chatting(t, `{"model":"demo","messages":[`+gone+`]}`).StatusCode)
}
