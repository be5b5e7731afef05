package api

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/modelserver"
)

// A stop sequence ends the answer of the official SDK and codex's turn: the model
// endpoint, whose stream has no other end, sees its connection closed. The conversation
// continues from the text that the client has.
func TestStopSequence(t *testing.T) {
	t.Parallel()
	b := bed.New(t, "trixie", bed.RealWorker, "")
	b.Start()
	client := b.Client()
	asking := func(answer string) openai.ChatCompletionNewParams {
		require.NoError(t, b.Models.Script("reasoning Observation: hm", "text I look.", "text \nObs", "text ervation",
			"text : invented", "gate never"))
		p := openai.ChatCompletionNewParams{Model: bed.Model, Messages: []openai.ChatCompletionMessageParamUnion{
			openai.SystemMessage("use tools in words"), openai.UserMessage("how many?"),
		}}
		if answer != "" {
			p.Messages = append(p.Messages, openai.AssistantMessage(answer), openai.UserMessage("Observation: 4"))
		}
		p.Stop.OfStringArray = []string{"\nObservation:", "<end>"}
		return p
	}

	answer, err := client.Chat.Completions.New(t.Context(), asking(""))
	require.NoError(t, err)
	assert.Equal(t, "I look.", answer.Choices[0].Message.Content)
	assert.Equal(t, "stop", answer.Choices[0].FinishReason)
	awaitCut(b, t, 1)

	stream := client.Chat.Completions.NewStreaming(t.Context(), asking("I look."))
	var acc openai.ChatCompletionAccumulator
	for stream.Next() {
		require.True(t, acc.AddChunk(stream.Current()))
	}
	require.NoError(t, stream.Err())
	assert.Equal(t, "I look.", acc.Choices[0].Message.Content)
	assert.Equal(t, "stop", acc.Choices[0].FinishReason)
	awaitCut(b, t, 2)

	assert.NotContains(t, historyOf(t, bed.LastTurn(b.Models)), "invented",
		"the model continues from the text that the client has received")
	for _, entry := range b.Entries(t, "-u", "codex-proxy.service") {
		assert.Greater(t, entry["PRIORITY"], "4", "a warning: %v", entry["MESSAGE"])
	}
	_, metrics := b.Get("/metrics")
	assert.Contains(t, string(metrics), `codex_turns_total{outcome="completed"} 2`)
}

// awaitCut waits until codex has closed so many requests to the model endpoint.
func awaitCut(b *bed.Bed, t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := b.Models.Wait(ctx, modelserver.CutAtLeast(n))
	require.NoError(t, err, "the turn continues at the model endpoint")
}

func historyOf(t *testing.T, turn modelserver.Request) string {
	t.Helper()
	input, err := json.Marshal(turn.Body.Input)
	require.NoError(t, err)
	return string(input)
}
