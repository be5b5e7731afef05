package anthropic

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// verdicts are what Claude Code reads: of a stream from the message_delta, else from the message.
func verdicts(t *testing.T, safeguards string, calls ...string) (streamed, whole string) {
	t.Helper()
	req, err := DecodeMessage(body(t, `"tools":[{"name":"f","input_schema":{"type":"object"}}],"safeguards":`+safeguards))
	require.NoError(t, err)
	b := NewBuilder(req, Head{Whole: true}, "")
	for _, id := range calls {
		b.Item(call(id, req.Tools[0].Wire.Name, `{}`))
	}
	var stream bytes.Buffer
	var w EventWriter
	require.NoError(t, w.Write(&stream, b.End(Stop{Reason: StopToolUse}, nil)))
	_, data, _ := bytes.Cut(stream.Bytes(), []byte("event: message_delta\ndata: "))
	data, _, _ = bytes.Cut(data, []byte("\n"))
	var end struct {
		Delta struct {
			Results json.RawMessage `json:"safeguard_results"`
		}
	}
	require.NoError(t, json.Unmarshal(data, &end))
	message, err := json.Marshal(b.Message())
	require.NoError(t, err)
	var all struct {
		Results json.RawMessage `json:"safeguard_results"`
	}
	require.NoError(t, json.Unmarshal(message, &all))
	return string(end.Delta.Results), string(all.Results)
}

// Claude Code's auto mode denies a call without a verdict.
func TestEachCallHasAVerdict(t *testing.T) {
	const auto = `{"type":"dangerous_tool_use","classifier_context":{"v":1,"permission_mode":"auto"}}`
	const clear = `{"type":"evaluated","outcome":"not_flagged"}`
	for safeguards, want := range map[string]string{
		`[` + auto + `]`: `[{"type":"dangerous_tool_use","status":{"type":"available","tool_uses":{"call_c1":` + clear +
			`,"call_c2":` + clear + `}}}]`,
		`[{"type":"newer"}]`: `[{"type":"newer","status":{"type":"unsupported"}}]`,
	} {
		streamed, whole := verdicts(t, safeguards, "c1", "c2")
		assert.JSONEq(t, want, streamed)
		assert.JSONEq(t, want, whole)
	}
	streamed, _ := verdicts(t, `[`+auto+`]`)
	assert.JSONEq(t, `[{"type":"dangerous_tool_use","status":{"type":"available","tool_uses":{}}}]`, streamed,
		"an answer without calls")
	streamed, whole := verdicts(t, `[]`, "c1")
	assert.Empty(t, streamed+whole)
}

func TestSafeguardsAreBounded(t *testing.T) {
	_, err := DecodeMessage(body(t, `"safeguards":[`+string(bytes.Repeat([]byte(`{"type":"a"},`), maxSafeguards))+`{"type":"a"}]`))
	assert.ErrorContains(t, err, "safeguards: must not hold more than 16")
}
