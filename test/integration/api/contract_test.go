package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/contract"
)

// Answers of the real codex have the form of OpenAI or of Anthropic, by the schema and event by
// event; the fake worker of package proxy has the volume of such tests.
func TestContract(t *testing.T) {
	t.Parallel()
	b := bed.New(t, "trixie", bed.RealWorker, "")
	b.Start()
	schema, err := contract.Compile()
	require.NoError(t, err)
	t.Run("models and stored responses", func(t *testing.T) { assertKept(b, t, schema) })
	for _, tc := range []struct {
		name    string
		prompt  string
		tools   int
		text    string
		refused bool // codex does not pass on the refusal's text
		calls   []string
		finish  string // of a chat
	}{
		{name: "text", prompt: "[[text hello]]", text: "hello"},
		{name: "nothing", prompt: "[[usage 1 0 0 0]]"},
		{name: "reasoning", prompt: "[[reasoning let me ]] [[reasoning think]] [[text so]]", text: "so"},
		{name: "an event cut inside a character", prompt: "[[split h]] [[split é👩‍👩‍👧]] [[split ☃]]", text: "hé👩‍👩‍👧☃"},
		{name: "empty deltas", prompt: "[[text ]] [[repeat 20 ]] [[text a]] [[text ]]", text: "a"},
		{name: "1-byte chunks", prompt: "[[trickle 0s " + strings.Repeat("abc ", 250) + "d]]",
			text: strings.Repeat("abc ", 250) + "d"},
		{name: "5 MB", prompt: "[[huge 5000000 250000]]", text: strings.Repeat("x", 5_000_000)},
		{name: "2 MB of history", prompt: strings.Repeat("é", 1_000_000) + "[[text ok]]", text: "ok"},
		{name: "cut short", prompt: "[[text par]] [[incomplete max_output_tokens]]", text: "par", finish: "length"},
		{name: "filtered", prompt: "[[text par]] [[incomplete content_filter]]", text: "par", finish: "content_filter"},
		{name: "refusal", prompt: "[[refusal I will not]]", refused: true},
		{name: "300 tools", tools: 300, prompt: `[[text so]] [[call tool_7 {"x":"é"}]] [[call tool_299 {}]]`,
			text:  "so",
			calls: []string{`tool_7{"x":"é"}`, "tool_299{}"}, finish: "tool_calls"},
	} {
		for _, api := range []contract.API{contract.Chat, contract.Responses, contract.Messages} {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/stream %t", tc.name, api.Name, stream), func(t *testing.T) {
					q := contract.Question{Model: bed.Model, Prompt: tc.prompt, Stream: stream}
					for i := range tc.tools {
						q.Tools = append(q.Tools, contract.Tool{Name: fmt.Sprintf("tool_%d", i),
							Parameters: json.RawMessage(`{"type":"object","properties":{"x":{"type":"string"}}}`)})
					}
					r := put(b, t.Context(), api, q)
					require.NoError(t, r.err)
					require.Equal(t, http.StatusOK, r.status, "%.2000s", r.body)
					answer, err := api.Judge(schema, q, r.body)
					require.NoError(t, err)
					assert.True(t, tc.text == answer.Text, "%.200q", answer.Text)
					finish := tc.finish
					if tc.refused && api.Name == contract.Messages.Name { // whose stop_reason says so
						finish = "content_filter"
					} else {
						assert.Equal(t, tc.refused, answer.Refusal != "")
					}
					var calls []string
					for _, call := range answer.Calls {
						calls = append(calls, call.Name+call.Arguments)
					}
					assert.Equal(t, tc.calls, calls)
					assert.Equal(t, finished(api, finish), answer.Finish)
				})
			}
		}
	}
}

// The lists of models, and stored responses, have OpenAI's form as well.
func assertKept(b *bed.Bed, t *testing.T, schema *contract.Schema) {
	t.Helper()
	status, body := b.Get("/v1/models")
	require.Equal(t, http.StatusOK, status)
	var list struct{ Data []json.RawMessage }
	require.NoError(t, json.Unmarshal(body, &list))
	require.NotEmpty(t, list.Data)
	for _, m := range list.Data {
		assert.NoError(t, schema.Check(contract.Model, m))
	}

	sdk := b.Client()
	stored, err := sdk.Responses.New(t.Context(), prompt(`[[reasoning why]] [[text so]]`))
	require.NoError(t, err)
	status, body = b.Get("/v1/responses/" + stored.ID)
	require.Equal(t, http.StatusOK, status)
	answer, err := schema.Response(body)
	require.NoError(t, err)
	assert.Equal(t, "so", answer.Text)
	assert.Equal(t, stored.ID, answer.ID)
}

// finished is an API's equivalent of a chat's finish_reason.
func finished(api contract.API, chat string) string {
	if api.Name == contract.Messages.Name {
		return map[string]string{"": "end_turn", "tool_calls": "tool_use", "length": "max_tokens",
			"content_filter": "refusal"}[chat]
	}
	switch {
	case api.Name == contract.Chat.Name && chat == "":
		return "stop"
	case api.Name == contract.Chat.Name:
		return chat
	case chat == "length", chat == "content_filter":
		return "incomplete"
	default:
		return "completed"
	}
}
