package integration

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/modelserver"
)

// A stop sequence ends the answer of the official SDK and codex's turn: the model
// endpoint, whose stream has no other end, sees its connection closed. The conversation
// continues from the text that the client has.
func TestStopSequence(t *testing.T) {
	t.Parallel()
	b := newBed(t, "trixie", realWorker, "")
	b.start()
	client := b.client()
	asking := func(answer string) openai.ChatCompletionNewParams {
		require.NoError(t, b.models.Script("reasoning Observation: hm", "text I look.", "text \nObs", "text ervation",
			"text : invented", "gate never"))
		p := openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{
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
	b.awaitCut(t, 1)

	stream := client.Chat.Completions.NewStreaming(t.Context(), asking("I look."))
	var acc openai.ChatCompletionAccumulator
	for stream.Next() {
		require.True(t, acc.AddChunk(stream.Current()))
	}
	require.NoError(t, stream.Err())
	assert.Equal(t, "I look.", acc.Choices[0].Message.Content)
	assert.Equal(t, "stop", acc.Choices[0].FinishReason)
	b.awaitCut(t, 2)

	assert.NotContains(t, historyOf(t, lastTurn(b.models)), "invented",
		"the model continues from the text that the client has received")
	for _, entry := range b.entries(t, "-u", "codex-proxy.service") {
		assert.Greater(t, entry["PRIORITY"], "4", "a warning: %v", entry["MESSAGE"])
	}
	_, metrics := b.get("/metrics")
	assert.Contains(t, string(metrics), `codex_turns_total{outcome="completed"} 2`)
}

// awaitCut waits until codex has closed so many requests to the model endpoint.
func (b *bed) awaitCut(t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := b.models.Wait(ctx, modelserver.CutAtLeast(n))
	require.NoError(t, err, "the turn continues at the model endpoint")
}

func historyOf(t *testing.T, turn modelserver.Request) string {
	t.Helper()
	input, err := json.Marshal(turn.Body.Input)
	require.NoError(t, err)
	return string(input)
}
