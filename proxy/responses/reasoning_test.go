package responses

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/reasoning"
	"codex-proxy/proxy/stored"
)

// A stored item of reasoning belongs to the worker that made it, with a mark and without.
func TestStoredReasoningFitsItsWorker(t *testing.T) {
	conversation := fromStore([]stored.Item{
		{ID: "rs_1", Worker: "default",
			JSON: []byte(`{"type":"reasoning","summary":[],"encrypted_content":"` + reasoning.Mark("default") + `demo"}`)},
		{ID: "rs_2", Worker: "default", JSON: []byte(`{"type":"reasoning","summary":[],"encrypted_content":"demo"}`)},
		{ID: "msg_1", JSON: []byte(`{"type":"message","role":"user","content":[{"type":"input_text","text":"q"}]}`)},
	})
	p, err := planTurn(&openai.ResponseRequest{Model: "demo"}, conversation)
	require.NoError(t, err)
	assert.Len(t, p.turn.Items, 3)
	assert.Len(t, p.reasoning.Only([]string{reasoning.Mark("default")}, p.turn.Items), 3)
	for _, item := range p.reasoning.Only([]string{reasoning.Mark("another")}, p.turn.Items) {
		assert.NotContains(t, string(item), "encrypted_content")
	}
}
