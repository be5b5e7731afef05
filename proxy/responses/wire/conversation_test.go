package wire

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
)

func TestResponseInAConversation(t *testing.T) {
	for _, value := range []string{`"conv_1"`, `{"id":"conv_1"}`} {
		req, err := Decode([]byte(`{"model":"m","conversation":`+value+`}`), jsonbody.Reading{})
		require.NoError(t, err, "it needs no input")
		assert.Equal(t, "conv_1", req.Conversation)
		blank, err := openai.Encode(req.Blank("resp_1", 1))
		require.NoError(t, err)
		assert.Contains(t, string(blank), `"conversation":{"id":"conv_1"}`)
	}
	req, err := Decode([]byte(`{"model":"m","input":"x","conversation":null}`), jsonbody.Reading{})
	require.NoError(t, err)
	blank, err := openai.Encode(req.Blank("resp_1", 1))
	require.NoError(t, err)
	assert.NotContains(t, string(blank), "conversation")
}
