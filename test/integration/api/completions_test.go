package api

import (
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// The official SDK's legacy completions run as turns of codex, and stop.
func TestCompletions(t *testing.T) {
	t.Parallel()
	b := bed.New(t, "trixie", bed.RealWorker, "")
	b.Start()
	client := b.Client()
	ask := openai.CompletionNewParams{Model: bed.Model, MaxTokens: openai.Int(256),
		Prompt: openai.CompletionNewParamsPromptUnion{OfArrayOfStrings: []string{"capital of France?"}}}

	require.NoError(t, b.Models.Script("reasoning hm", "text par", "split is — Größe 🙂", "usage 21 8 13 5"))
	answer, err := client.Completions.New(t.Context(), ask)
	require.NoError(t, err)
	assert.Equal(t, "paris — Größe 🙂", answer.Choices[0].Text)
	assert.Equal(t, openai.CompletionChoiceFinishReasonStop, answer.Choices[0].FinishReason)
	bed.AssertUsage(t, answer.Usage)
	assert.Contains(t, historyOf(t, bed.LastTurn(b.Models)), "capital of France?")

	require.NoError(t, b.Models.Script("text one ", "text two EN", "text D three", "gate never"))
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
	awaitCut(b, t, 1)
}
