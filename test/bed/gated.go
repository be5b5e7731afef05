package bed

import (
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// gated is a streamed answer whose end the model holds back behind the gate "finish".
type gated struct {
	Stream *ssestream.Stream[openai.ChatCompletionChunk]
	answer openai.ChatCompletionAccumulator
}

// HoldSDK begins a stream, with more steps after the gate, and returns when its
// first text is there.
func HoldSDK(b *Bed, after ...string) *gated {
	b.T.Helper()
	require.NoError(b.T, b.Models.Script(append([]string{"text one ", "gate finish"}, append(after, "text two")...)...))
	client := b.Client()
	h := &gated{Stream: client.Chat.Completions.NewStreaming(b.T.Context(), Question("count"))}
	for h.Stream.Next() {
		require.True(b.T, h.answer.AddChunk(h.Stream.Current()))
		if h.answer.Choices[0].Message.Content == "one " {
			return h
		}
	}
	require.NoError(b.T, h.Stream.Err())
	require.Fail(b.T, "the stream ended early")
	return nil
}

// Whole reads the rest of the stream, which must be complete.
func (h *gated) Whole(t *testing.T) {
	t.Helper()
	for h.Stream.Next() {
		require.True(t, h.answer.AddChunk(h.Stream.Current()))
	}
	require.NoError(t, h.Stream.Err())
	assert.Equal(t, "one two", h.answer.Choices[0].Message.Content)
	assert.Equal(t, "stop", h.answer.Choices[0].FinishReason)
}
