package responses

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/appserver/history"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/stored"
)

func TestReasoningFitsItsWorker(t *testing.T) {
	theirs, foreign := history.Reasoning(nil, "theirs"), history.Reasoning(nil, "from elsewhere")
	question := history.TextMessage("user", "q")
	var from owners
	from.add(theirs, markOf("b"))
	from.add(foreign, "")
	all := []history.Item{theirs, foreign, question}
	assert.Equal(t, []history.Item{foreign, question}, from.fit([]string{markOf("a"), ""}, all))
	assert.Equal(t, all, from.fit([]string{markOf("b"), ""}, all))
	assert.Equal(t, []history.Item{theirs, question}, from.fit([]string{markOf("a"), markOf("b")}, all))
	assert.Equal(t, []history.Item{question}, from.fit([]string{markOf("a")}, all))
	assert.Equal(t, "b", from.prefers([]string{"a", "b"}))
	assert.Empty(t, from.prefers([]string{"a"}))
}

// A stored item of reasoning belongs to the worker that made it, with a mark and without.
func TestStoredReasoningFitsItsWorker(t *testing.T) {
	conversation := fromStore([]stored.Item{
		{ID: "rs_1", Worker: "default",
			JSON: []byte(`{"type":"reasoning","summary":[],"encrypted_content":"` + markOf("default") + `demo"}`)},
		{ID: "rs_2", Worker: "default", JSON: []byte(`{"type":"reasoning","summary":[],"encrypted_content":"demo"}`)},
		{ID: "msg_1", JSON: []byte(`{"type":"message","role":"user","content":[{"type":"input_text","text":"q"}]}`)},
	})
	p, err := planTurn(&openai.ResponseRequest{Model: "demo"}, conversation)
	require.NoError(t, err)
	assert.Len(t, p.turn.Items, 3)
	assert.Len(t, p.reasoning.fit([]string{markOf("default")}, p.turn.Items), 3)
	for _, item := range p.reasoning.fit([]string{markOf("another")}, p.turn.Items) {
		assert.NotContains(t, string(item), "encrypted_content")
	}
}
