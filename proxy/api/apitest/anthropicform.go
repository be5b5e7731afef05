package apitest

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// AnthropicVersion is the header by which a request is known as one of Anthropic's API.
var AnthropicVersion = []string{"Anthropic-Version", "2023-06-01"}

// AnthropicFailure is the error of an answer in Anthropic's form, or of an event `error`.
func AnthropicFailure(t testing.TB, text string) (kind, message, requestID string) {
	t.Helper()
	var e struct {
		Type  string
		Error struct{ Type, Message string }
		ID    string `json:"request_id"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &e), text)
	assert.Equal(t, "error", e.Type)
	assert.NotEmpty(t, e.Error.Message)
	return e.Error.Type, e.Error.Message, e.ID
}
