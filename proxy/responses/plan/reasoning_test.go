package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/reasoning"
	"codex-proxy/proxy/responses/wire"
	"codex-proxy/proxy/stored"
)

// A stored item of reasoning belongs to the worker that made it, with an origin and without.
func TestStoredReasoningFitsItsWorker(t *testing.T) {
	conversation := FromStore([]stored.Item{
		{ID: "rs_1", Worker: "default",
			JSON: []byte(`{"type":"reasoning","summary":[],"encrypted_content":"` + reasoning.Origin("default") + `demo"}`)},
		{ID: "rs_2", Worker: "default", JSON: []byte(`{"type":"reasoning","summary":[],"encrypted_content":"demo"}`)},
		{ID: "msg_1", JSON: []byte(`{"type":"message","role":"user","content":[{"type":"input_text","text":"q"}]}`)},
	})
	p, err := New(&wire.Request{Model: "demo"}, conversation)
	require.NoError(t, err)
	assert.Len(t, p.Turn.Items, 3)
	assert.Len(t, p.Reasoning.Only([]string{reasoning.Origin("default")}, p.Turn.Items), 3)
	for _, item := range p.Reasoning.Only([]string{reasoning.Origin("another")}, p.Turn.Items) {
		assert.NotContains(t, string(item), "encrypted_content")
	}
}
