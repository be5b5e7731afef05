package apitest

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
)

// Stopping is a turn that plays, then runs until it is interrupted, which it reports.
func Stopping(interrupted chan<- string, play func(context.Context, *appservertest.Turn)) appservertest.Handler {
	return func(ctx context.Context, turn *appservertest.Turn) error {
		play(ctx, turn)
		<-ctx.Done()
		interrupted <- turn.ThreadID
		return ctx.Err()
	}
}

// Observed is the text that a ReAct agent stops at its observation, in pieces.
var Observed = []string{"I look.", "\n", "Obs", "ervation", ": invented", " by the model"}

// Deltas sends a message in these pieces.
func Deltas(turn *appservertest.Turn, pieces []string) {
	m := turn.Begin("")
	for _, piece := range pieces {
		m.Delta(piece)
	}
}

// chatAnswer is the choices of an answer, whole or joined from the chunks of a stream.
type chatAnswer struct {
	Text, Reasoning, Finish map[int]string
	Calls                   []string
}

// ReadChat reads the answer to a chat, whole or as a stream.
func ReadChat(t testing.TB, resp *http.Response) (a chatAnswer) {
	t.Helper()
	type part struct {
		Content          string
		ReasoningContent string `json:"reasoning_content"`
		ToolCalls        []struct {
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	}
	a = chatAnswer{Text: map[int]string{}, Reasoning: map[int]string{}, Finish: map[int]string{}}
	read := func(document string) {
		var got struct {
			Choices []struct {
				Index          int
				Message, Delta part
				FinishReason   string `json:"finish_reason"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(document), &got), document)
		require.NotContains(t, document, `"error"`)
		for _, c := range got.Choices {
			a.Text[c.Index] += c.Message.Content + c.Delta.Content
			a.Reasoning[c.Index] += c.Message.ReasoningContent + c.Delta.ReasoningContent
			a.Finish[c.Index] += c.FinishReason
			for _, call := range append(c.Message.ToolCalls, c.Delta.ToolCalls...) {
				a.Calls = append(a.Calls, call.Function.Name+call.Function.Arguments)
			}
		}
	}
	require.Equal(t, http.StatusOK, resp.StatusCode)
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		read(Text(t, resp))
		return a
	}
	got := Frames(t, resp)
	require.Equal(t, "[DONE]", got[len(got)-1])
	for _, frame := range got[:len(got)-1] {
		read(frame)
	}
	return a
}

// BothForms runs a test for a whole answer and for a stream.
func BothForms(t *testing.T, do func(t *testing.T, form string)) {
	t.Helper()
	for name, form := range map[string]string{"whole": "", "streamed": Streaming} {
		t.Run(name, func(t *testing.T) { do(t, form) })
	}
}
