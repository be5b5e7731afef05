package openai

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPieces(t *testing.T) {
	for _, text := range []string{"", "a", strings.Repeat("a", MaxDelta), strings.Repeat("a", MaxDelta+1),
		strings.Repeat("é", 5000), "a" + strings.Repeat("𝄞", 5000), strings.Repeat("\xff", 10_000), strings.Repeat("\x80", 10_000)} {
		pieces := slices.Collect(Pieces(text))
		assert.Equal(t, text, strings.Join(pieces, ""))
		assert.LessOrEqual(t, len(pieces), len(text)/(MaxDelta-utf8.UTFMax)+1, "%d bytes", len(text))
		for _, piece := range pieces {
			assert.LessOrEqual(t, len(piece), MaxDelta)
			assert.Equal(t, utf8.ValidString(text), utf8.ValidString(piece))
		}
	}
}

// longest is the longest delta of the events, and all of them together.
func longest(t *testing.T, events []ResponseEvent, kind string) (most int, all string) {
	t.Helper()
	for _, e := range events {
		data, err := json.Marshal(e)
		require.NoError(t, err)
		var sent struct{ Type, Delta string }
		require.NoError(t, json.Unmarshal(data, &sent))
		if sent.Type == kind {
			most, all = max(most, len(sent.Delta)), all+sent.Delta
		}
	}
	return most, all
}

// A call of 140 kB in one line ends clients that bound it.
func TestLongCallsAreManyDeltas(t *testing.T) {
	long := `{"content":"` + strings.Repeat("é<", 50_000) + `"}`
	for tool, kind := range map[string]string{
		`{"type":"function","name":"f"}`: "response.function_call_arguments.delta",
		`{"type":"custom","name":"f"}`:   "response.custom_tool_call_input.delta",
	} {
		req, err := DecodeResponse([]byte(`{"model":"m","input":"x","tools":[` + tool + `]}`))
		require.NoError(t, err)
		item, err := json.Marshal(map[string]string{"type": "function_call", "id": "1", "call_id": "c", "name": "f", "arguments": long})
		require.NoError(t, err)
		most, all := longest(t, NewResponseBuilder(req, req.Blank("resp_1", 5), "", counter()).Item(item), kind)
		assert.Positive(t, most)
		assert.LessOrEqual(t, most, MaxDelta)
		assert.Contains(t, all, "é<é<")
	}
}

func TestLongTextsAreManyDeltas(t *testing.T) {
	req, err := DecodeResponse([]byte(`{"model":"m","input":"x"}`))
	require.NoError(t, err)
	long := strings.Repeat("é<", 50_000)
	most, all := longest(t, NewResponseBuilder(req, req.Blank("resp_1", 5), "", counter()).Text("1", long), "response.output_text.delta")
	assert.LessOrEqual(t, most, MaxDelta)
	assert.Equal(t, long, all)

	var out strings.Builder
	require.NoError(t, newTextWriter([]byte(`{"content":""}`), `"content":`).WriteEvent(&out, long))
	for line := range strings.Lines(out.String()) {
		assert.Less(t, len(line), 2*MaxDelta)
	}
}

func TestLongCallsOfAChatAreManyChunks(t *testing.T) {
	long := strings.Repeat("é<", 50_000)
	for _, legacy := range []bool{false, true} {
		all := ""
		for _, c := range (Answer{Legacy: legacy}).CallChunks(0, 0, ToolCall{ID: "c", Name: "f", Arguments: long}) {
			data, err := json.Marshal(c)
			require.NoError(t, err)
			assert.Less(t, len(data), 6*MaxDelta)
			delta := c.Choices[0].Delta
			if legacy {
				all += delta.FunctionCall.Arguments
			} else {
				all += delta.ToolCalls[0].Function.Arguments
			}
		}
		assert.Equal(t, long, all)
	}
}
