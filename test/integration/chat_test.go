package integration

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/modelserver"
)

func question(text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: model,
		Messages: []openai.ChatCompletionMessageParamUnion{
			openai.SystemMessage("answer in one word"),
			openai.DeveloperMessage("lower case"),
			openai.UserMessage("capital of Italy?"),
			openai.AssistantMessage("rome"),
			openai.UserMessage(text),
		},
	}
}

// The official SDK receives the output of the model endpoint.
func TestChat(t *testing.T) {
	t.Parallel()
	b := newBed(t, "trixie", realWorker, "")
	b.start()
	client := b.client()

	t.Run("models", func(t *testing.T) {
		page, err := client.Models.List(t.Context())
		require.NoError(t, err)
		require.Len(t, page.Data, 1)
		assert.Equal(t, model, page.Data[0].ID)
	})

	t.Run("whole", func(t *testing.T) {
		require.NoError(t, b.models.Script("text par", "split is — Größe 🙂", "usage 21 8 13 5"))
		answer, err := client.Chat.Completions.New(t.Context(), question("capital of France?"))
		require.NoError(t, err)
		require.Len(t, answer.Choices, 1)
		assert.Equal(t, "paris — Größe 🙂", answer.Choices[0].Message.Content)
		assert.Equal(t, "stop", answer.Choices[0].FinishReason)
		assert.Equal(t, model, answer.Model)
		assertUsage(t, answer.Usage)
		assertHistory(t, lastTurn(b.models))
	})

	t.Run("cut short", func(t *testing.T) {
		require.NoError(t, b.models.Script("text par", "usage 21 8 13 5", "incomplete max_output_tokens"))
		answer, err := client.Chat.Completions.New(t.Context(), question("capital of France?"))
		require.NoError(t, err)
		assert.Equal(t, "par", answer.Choices[0].Message.Content)
		assert.Equal(t, "length", answer.Choices[0].FinishReason)
		assertUsage(t, answer.Usage)
	})

	t.Run("streamed", func(t *testing.T) {
		require.NoError(t, b.models.Script("text one ", "gate finish", "text two", "usage 21 8 13 5"))
		params := question("count")
		params.StreamOptions.IncludeUsage = openai.Bool(true)
		stream := client.Chat.Completions.NewStreaming(t.Context(), params)
		var acc openai.ChatCompletionAccumulator
		released := false
		for stream.Next() {
			chunk := stream.Current()
			require.True(t, acc.AddChunk(chunk))
			if !released && len(chunk.Choices) > 0 && chunk.Choices[0].Delta.Content == "one " {
				ctx, cancel := context.WithTimeout(t.Context(), bound)
				_, err := b.models.Wait(ctx, modelserver.AtGate("finish", 1)) // the model has not finished
				cancel()
				require.NoError(t, err)
				b.models.Release("finish")
				released = true
			}
		}
		require.NoError(t, stream.Err())
		require.True(t, released, "the first chunk did not come before the model had finished")
		assert.Equal(t, "one two", acc.Choices[0].Message.Content)
		assert.Equal(t, "stop", acc.Choices[0].FinishReason)
		assertUsage(t, acc.Usage)
	})

	t.Run("latency", func(t *testing.T) { b.measureFirstChunk(t, client) })
}

// measureFirstChunk reports the time to the first chunk through the whole chain, for
// information only.
func (b *bed) measureFirstChunk(t *testing.T, client openai.Client) {
	const turns = 40
	require.NoError(t, b.models.Add(modelserver.Script{Model: model, Times: turns,
		Steps: []string{"text x", "text y"}}))
	var first, whole sample
	for range turns {
		began := time.Now()
		stream := client.Chat.Completions.NewStreaming(t.Context(), question("measure"))
		require.True(t, stream.Next(), "%v", stream.Err())
		first = append(first, time.Since(began))
		for stream.Next() {
		}
		require.NoError(t, stream.Err())
		whole = append(whole, time.Since(began))
	}
	t.Logf("first chunk %s; whole answer %s", first, whole)
}

func assertUsage(t *testing.T, u openai.CompletionUsage) {
	t.Helper()
	assert.Equal(t, []int64{21, 13, 34, 8, 5}, []int64{
		u.PromptTokens, u.CompletionTokens, u.TotalTokens, u.PromptTokensDetails.CachedTokens,
		u.CompletionTokensDetails.ReasoningTokens,
	})
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

func lastTurn(s *modelserver.Server) modelserver.Request {
	turns := s.Turns()
	return turns[len(turns)-1]
}
