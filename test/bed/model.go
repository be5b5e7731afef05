package bed

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/modelserver"
)

// Question is a chat with messages of each role, the last one of which is text.
func Question(text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: Model,
		Messages: []openai.ChatCompletionMessageParamUnion{
			openai.SystemMessage("answer in one word"),
			openai.DeveloperMessage("lower case"),
			openai.UserMessage("capital of Italy?"),
			openai.AssistantMessage("rome"),
			openai.UserMessage(text),
		},
	}
}

// AssertUsage asserts the usage that the model endpoint reports for each turn.
func AssertUsage(t *testing.T, u openai.CompletionUsage) {
	t.Helper()
	assert.Equal(t, []int64{21, 13, 34, 8, 5}, []int64{
		u.PromptTokens, u.CompletionTokens, u.TotalTokens, u.PromptTokensDetails.CachedTokens,
		u.CompletionTokensDetails.ReasoningTokens,
	})
}

// LastTurn is the last request for a turn that the model endpoint got.
func LastTurn(s *modelserver.Server) modelserver.Request {
	turns := s.Turns()
	return turns[len(turns)-1]
}

// Overloaded is the status of Anthropic's API for a failure that passes by itself.
const Overloaded = 529

var (
	// WeatherSchema is the schema of the arguments of the tool for the weather.
	WeatherSchema = map[string]any{"type": "object",
		"properties": map[string]any{"city": map[string]any{"type": "string"}},
		"required":   []string{"city"}, "additionalProperties": false}
)

// Sunny is the result of the tool for a city.
func Sunny(t *testing.T, arguments string) string {
	t.Helper()
	var of struct{ City string }
	require.NoError(t, json.Unmarshal([]byte(arguments), &of))
	return "sunny in " + of.City
}

// TurnsWith are the turns of the model endpoint whose input has the word.
func TurnsWith(b *Bed, word string) []modelserver.Request {
	var with []modelserver.Request
	for _, turn := range b.Models.Turns() {
		if strings.Contains(string(turn.Body.Raw), word) {
			with = append(with, turn)
		}
	}
	return with
}

// AssertGiven checks that the model was given these texts, in this order.
func AssertGiven(t *testing.T, turn modelserver.Request, texts ...string) {
	t.Helper()
	rest := string(turn.Body.Raw)
	for _, text := range texts {
		_, after, ok := strings.Cut(rest, text)
		require.True(t, ok, "%q is missing in %s", text, rest)
		rest = after
	}
}

// CacheKey is the prompt_cache_key of a request to the model endpoint.
func CacheKey(t *testing.T, body json.RawMessage) string {
	t.Helper()
	var head struct {
		Key string `json:"prompt_cache_key"`
	}
	require.NoError(t, json.Unmarshal(body, &head))
	require.NotEmpty(t, head.Key)
	return head.Key
}
