package proxy

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// A conversation that goes on in its thread sends the model endpoint the same requests
// as one without thread reuse, and in addition the reasoning behind the answers, which a
// client of chat completions never has. The thread stays the same, and with it the key
// of the endpoint's prompt cache.
func TestThreadReuse(t *testing.T) {
	t.Parallel()
	b := bed.New(t, "trixie", bed.RealWorker, "thread_cache = 0\n")
	b.Start()
	apart := converse(t, b)
	require.NoError(t, b.WriteFile("/etc/codex-proxy/config.toml", nil, 0o644))
	b.MustRun(t, "systemctl", "restart", "codex-proxy")
	b.HTTP.CloseIdleConnections() // they belong to the old process
	together := converse(t, b)

	require.Equal(t, len(apart), len(together))
	keys := map[string]bool{}
	for i := range apart {
		want, thoughts := plain(t, apart[i])
		assert.Zero(t, thoughts)
		got, thoughts := plain(t, together[i])
		assert.Equal(t, i, thoughts)
		assert.JSONEq(t, want, got, "request %d", i+1)
		keys[bed.CacheKey(t, together[i])] = true
	}
	assert.Len(t, keys, 1, "one thread has one key")
	assert.NotEqual(t, bed.CacheKey(t, apart[0]), bed.CacheKey(t, apart[1]))
	_, metrics := b.Get("/metrics")
	assert.Contains(t, string(metrics), `codex_thread_reuse_total{outcome="hit"} 3`)
}

// converse has a conversation of four questions and returns the requests to the model
// endpoint.
func converse(t *testing.T, b *bed.Bed) (bodies []json.RawMessage) {
	t.Helper()
	client := b.Client()
	messages := []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("answer in one word"),
		openai.DeveloperMessage("lower case")}
	for i, question := range []string{"capital of Italy?", "and of France? — Größe 🙂", "of Spain?", "of Portugal?"} {
		messages = append(messages, openai.UserMessage(question))
		require.NoError(t, b.Models.Script("reasoning hm", "text answer ", "text "+question, "usage 21 8 13 5"))
		before := len(b.Models.Requests())
		answer, err := client.Chat.Completions.New(t.Context(),
			openai.ChatCompletionNewParams{Model: bed.Model, Messages: messages, ReasoningEffort: "low"})
		require.NoError(t, err)
		bed.AssertUsage(t, answer.Usage)
		messages = append(messages, openai.AssistantMessage(answer.Choices[0].Message.Content))
		asked := b.Models.Requests()[before:]
		require.Len(t, asked, 1, "question %d", i+1)
		require.Equal(t, http.MethodPost, asked[0].Method)
		bodies = append(bodies, asked[0].Body.Raw)
	}
	return bodies
}

// plain is a request without the parts that codex makes anew each time (the ids of
// items and threads, and its notes on them), without the additional fields of an item
// that the model itself has made, and without reasoning, which it counts.
func plain(t *testing.T, body json.RawMessage) (text string, thoughts int) {
	t.Helper()
	var request map[string]any
	require.NoError(t, json.Unmarshal(body, &request))
	delete(request, "prompt_cache_key")
	delete(request, "client_metadata")
	input := []any{}
	for _, item := range request["input"].([]any) {
		fields := item.(map[string]any)
		if fields["type"] == "reasoning" {
			thoughts++
			continue
		}
		for name := range fields {
			if name == "id" || name == "status" || strings.HasPrefix(name, "internal_") {
				delete(fields, name)
			}
		}
		for _, part := range fields["content"].([]any) {
			delete(part.(map[string]any), "annotations")
		}
		input = append(input, fields)
	}
	request["input"] = input
	out, err := json.Marshal(request)
	require.NoError(t, err)
	return string(out), thoughts
}
