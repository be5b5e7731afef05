package openai

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStreamEncoding(t *testing.T) {
	a := Answer{ID: "chatcmpl-1", Created: 5, Model: "m"}
	var b bytes.Buffer
	for _, c := range []ChatChunk{a.RoleChunk(), a.TextChunk("hé\n"), a.FinishChunk(FinishStop), a.UsageChunk(&Usage{PromptTokens: 1, CompletionTokens: 2, TotalTokens: 3})} {
		require.NoError(t, WriteEvent(&b, c))
	}
	require.NoError(t, WriteKeepalive(&b))
	require.NoError(t, WriteDone(&b))
	const head = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":5,"model":"m",`
	assert.Equal(t, head+`"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`+"\n\n"+
		head+`"choices":[{"index":0,"delta":{"content":"hé\n"},"finish_reason":null}]}`+"\n\n"+
		head+`"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\n"+
		head+`"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}`+"\n\n"+
		": keepalive\n\ndata: [DONE]\n\n", b.String())
}
