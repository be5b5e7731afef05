package integration

import (
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The official SDK's legacy completions run as turns of codex, and stop.
func TestCompletions(t *testing.T) {
	t.Parallel()
	b := newBed(t, "trixie", realWorker, "")
	b.start()
	client := b.client()
	ask := openai.CompletionNewParams{Model: model, MaxTokens: openai.Int(256),
		Prompt: openai.CompletionNewParamsPromptUnion{OfArrayOfStrings: []string{"capital of France?"}}}

	require.NoError(t, b.models.Script("reasoning hm", "text par", "split is — Größe 🙂", "usage 21 8 13 5"))
	answer, err := client.Completions.New(t.Context(), ask)
	require.NoError(t, err)
	assert.Equal(t, "paris — Größe 🙂", answer.Choices[0].Text)
	assert.Equal(t, openai.CompletionChoiceFinishReasonStop, answer.Choices[0].FinishReason)
	assertUsage(t, answer.Usage)
	assert.Contains(t, historyOf(t, lastTurn(b.models)), "capital of France?")

	require.NoError(t, b.models.Script("text one ", "text two EN", "text D three", "gate never"))
	ask.Stop.OfStringArray = []string{"END"}
	stream := client.Completions.NewStreaming(t.Context(), ask)
	text, finish := "", ""
	for stream.Next() {
		for _, c := range stream.Current().Choices {
			text, finish = text+c.Text, string(c.FinishReason)
		}
	}
	require.NoError(t, stream.Err())
	assert.Equal(t, "one two ", text)
	assert.Equal(t, "stop", finish)
	b.awaitCut(t, 1)
}
