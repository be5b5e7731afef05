package integration

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A conversation that goes on in its thread sends the model endpoint the same requests
// as one without thread reuse, and in addition the reasoning behind the answers, which a
// client of chat completions never has. The thread stays the same, and with it the key
// of the endpoint's prompt cache.
func TestThreadReuse(t *testing.T) {
	t.Parallel()
	b := newBed(t, "trixie", realWorker, "thread_cache = 0\n")
	b.start()
	apart := converse(t, b)
	require.NoError(t, b.WriteFile("/etc/codex-proxy/config.toml", nil, 0o644))
	b.MustRun(t, "systemctl", "restart", "codex-proxy")
	b.http.CloseIdleConnections() // they belong to the old process
	together := converse(t, b)

	require.Equal(t, len(apart), len(together))
	keys := map[string]bool{}
	for i := range apart {
		want, thoughts := plain(t, apart[i])
		assert.Zero(t, thoughts)
		got, thoughts := plain(t, together[i])
		assert.Equal(t, i, thoughts)
		assert.JSONEq(t, want, got, "request %d", i+1)
		keys[cacheKey(t, together[i])] = true
	}
	assert.Len(t, keys, 1, "one thread has one key")
	assert.NotEqual(t, cacheKey(t, apart[0]), cacheKey(t, apart[1]))
	_, metrics := b.get("/metrics")
	assert.Contains(t, string(metrics), `codex_thread_reuse_total{outcome="hit"} 3`)
}

// converse has a conversation of four questions and returns the requests to the model
// endpoint.
func converse(t *testing.T, b *bed) (bodies []json.RawMessage) {
	t.Helper()
	client := b.client()
	messages := []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("answer in one word"),
		openai.DeveloperMessage("lower case")}
	for i, question := range []string{"capital of Italy?", "and of France? — Größe 🙂", "of Spain?", "of Portugal?"} {
		messages = append(messages, openai.UserMessage(question))
		require.NoError(t, b.models.Script("reasoning hm", "text answer ", "text "+question, "usage 21 8 13 5"))
		before := len(b.models.Requests())
		answer, err := client.Chat.Completions.New(t.Context(),
			openai.ChatCompletionNewParams{Model: model, Messages: messages, ReasoningEffort: "low"})
		require.NoError(t, err)
		assertUsage(t, answer.Usage)
		messages = append(messages, openai.AssistantMessage(answer.Choices[0].Message.Content))
		asked := b.models.Requests()[before:]
		require.Len(t, asked, 1, "question %d", i+1)
		require.Equal(t, http.MethodPost, asked[0].Method)
		bodies = append(bodies, asked[0].Body.Raw)
	}
	return bodies
}

func cacheKey(t *testing.T, body json.RawMessage) string {
	t.Helper()
	var head struct {
		Key string `json:"prompt_cache_key"`
	}
	require.NoError(t, json.Unmarshal(body, &head))
	require.NotEmpty(t, head.Key)
	return head.Key
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
