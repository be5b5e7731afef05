package eventstream

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/responses/wire"
)

// longest is the longest delta of the events, and all of them together.
func longest(t *testing.T, events []Event, kind string) (most int, all string) {
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
		req, err := wire.Decode([]byte(`{"model":"m","input":"x","tools":[`+tool+`]}`), jsonbody.Reading{})
		require.NoError(t, err)
		item, err := json.Marshal(map[string]string{"type": "function_call", "id": "1", "call_id": "c", "name": "f", "arguments": long})
		require.NoError(t, err)
		most, all := longest(t, New(req, req.Blank("resp_1", 5), "", counter()).Item(item), kind)
		assert.Positive(t, most)
		assert.LessOrEqual(t, most, openai.MaxDelta)
		assert.Contains(t, all, "é<é<")
	}
}

func TestLongTextsAreManyDeltas(t *testing.T) {
	req, err := wire.Decode([]byte(`{"model":"m","input":"x"}`), jsonbody.Reading{})
	require.NoError(t, err)
	long := strings.Repeat("é<", 50_000)
	most, all := longest(t, New(req, req.Blank("resp_1", 5), "", counter()).Text("1", long), "response.output_text.delta")
	assert.LessOrEqual(t, most, openai.MaxDelta)
	assert.Equal(t, long, all)

	var out strings.Builder
	require.NoError(t, openai.NewTextWriter(json.RawMessage(`{"content":""}`), `"content":`).WriteEvent(&out, long))
	for line := range strings.Lines(out.String()) {
		assert.Less(t, len(line), 2*openai.MaxDelta)
	}
}
