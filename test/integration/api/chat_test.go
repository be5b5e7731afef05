package api

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/modelserver"
)

// The official SDK receives the output of the model endpoint.
func TestChat(t *testing.T) {
	t.Parallel()
	b := bed.New(t, "trixie", bed.RealWorker, "")
	b.Start()
	client := b.Client()

	t.Run("models", func(t *testing.T) {
		page, err := client.Models.List(t.Context())
		require.NoError(t, err)
		require.Len(t, page.Data, 1)
		assert.Equal(t, bed.Model, page.Data[0].ID)
	})

	t.Run("whole", func(t *testing.T) {
		require.NoError(t, b.Models.Script("text par", "split is — Größe 🙂", "usage 21 8 13 5"))
		answer, err := client.Chat.Completions.New(t.Context(), bed.Question("capital of France?"))
		require.NoError(t, err)
		require.Len(t, answer.Choices, 1)
		assert.Equal(t, "paris — Größe 🙂", answer.Choices[0].Message.Content)
		assert.Equal(t, "stop", answer.Choices[0].FinishReason)
		assert.Equal(t, bed.Model, answer.Model)
		bed.AssertUsage(t, answer.Usage)
		assertHistory(t, bed.LastTurn(b.Models))
	})

	t.Run("cut short", func(t *testing.T) {
		require.NoError(t, b.Models.Script("text par", "usage 21 8 13 5", "incomplete max_output_tokens"))
		answer, err := client.Chat.Completions.New(t.Context(), bed.Question("capital of France?"))
		require.NoError(t, err)
		assert.Equal(t, "par", answer.Choices[0].Message.Content)
		assert.Equal(t, "length", answer.Choices[0].FinishReason)
		bed.AssertUsage(t, answer.Usage)
	})

	t.Run("streamed", func(t *testing.T) {
		require.NoError(t, b.Models.Script("text one ", "gate finish", "text two", "usage 21 8 13 5"))
		params := bed.Question("count")
		params.StreamOptions.IncludeUsage = openai.Bool(true)
		stream := client.Chat.Completions.NewStreaming(t.Context(), params)
		var acc openai.ChatCompletionAccumulator
		released := false
		for stream.Next() {
			chunk := stream.Current()
			require.True(t, acc.AddChunk(chunk))
			if !released && len(chunk.Choices) > 0 && chunk.Choices[0].Delta.Content == "one " {
				ctx, cancel := context.WithTimeout(t.Context(), bed.Bound)
				_, err := b.Models.Wait(ctx, modelserver.AtGate("finish", 1)) // the model has not finished
				cancel()
				require.NoError(t, err)
				b.Models.Release("finish")
				released = true
			}
		}
		require.NoError(t, stream.Err())
		require.True(t, released, "the first chunk did not come before the model had finished")
		assert.Equal(t, "one two", acc.Choices[0].Message.Content)
		assert.Equal(t, "stop", acc.Choices[0].FinishReason)
		bed.AssertUsage(t, acc.Usage)
	})

	t.Run("latency", func(t *testing.T) { measureFirstChunk(b, t, client) })
}

// measureFirstChunk reports the time to the first chunk through the whole chain, for
// information only.
func measureFirstChunk(b *bed.Bed, t *testing.T, client openai.Client) {
	const turns = 40
	require.NoError(t, b.Models.Add(modelserver.Script{Model: bed.Model, Times: turns,
		Steps: []string{"text x", "text y"}}))
	var first, whole bed.Sample
	for range turns {
		began := time.Now()
		stream := client.Chat.Completions.NewStreaming(t.Context(), bed.Question("measure"))
		require.True(t, stream.Next(), "%v", stream.Err())
		first = append(first, time.Since(began))
		for stream.Next() {
		}
		require.NoError(t, stream.Err())
		whole = append(whole, time.Since(began))
	}
	t.Logf("first chunk %s; whole answer %s", first, whole)
}

// assertHistory checks the model's input: every role in its place.
func assertHistory(t *testing.T, turn modelserver.Request) {
	t.Helper()
	var got []string
	for _, item := range turn.Body.Input {
		got = append(got, string(item))
	}
	all := strings.Join(got, "\n")
	for _, want := range []string{`"developer"`, "lower case", "capital of Italy?", `"assistant"`,
		"rome", "capital of France?"} {
		assert.Contains(t, all, want)
	}
	assert.Empty(t, turn.Body.Instructions)
	assert.Contains(t, got[0], `"developer"`)
	assert.Contains(t, got[0], "answer in one word", "the system messages at the start")
	assert.NotContains(t, all, "You are Codex", "codex's own prompt must not reach a plain model")
	assert.Empty(t, turn.Body.Tools)
	assert.Less(t, strings.Index(all, "capital of Italy?"), strings.Index(all, "capital of France?"))
}
