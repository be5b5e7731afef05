package anthropic

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai"
	"codex-proxy/test/contract"
)

// honouredValues are values of the parameters that have an effect.
var honouredValues = map[string]string{
	"model": `"m"`, "messages": `[{"role":"user","content":"x"}]`, "system": `"Be brief."`, "stream": `true`,
	"stop_sequences": `["END"]`, "thinking": `{"type":"enabled","budget_tokens":2048}`,
	"output_config": `{"effort":"high"}`, "output_format": `{"type":"json_schema","schema":{"type":"object"}}`,
	"tools": `[{"name":"f","input_schema":{"type":"object"}}]`, "tool_choice": `{"type":"auto"}`,
	"service_tier": `"auto"`, "speed": `"standard"`, "safeguards": `[{"type":"dangerous_tool_use"}]`,
}

// otherValues are values of the parameters that need one of a kind.
var otherValues = map[string]string{
	"max_tokens": `10`, "temperature": `0.5`, "top_p": `0.5`, "top_k": `5`, "metadata": `{"user_id":"ann"}`,
}

// Every parameter in the table can be sent, and follows its rule.
func TestParametersFollowTheTable(t *testing.T) {
	for name, p := range params {
		value, known := honouredValues[name]
		require.Equal(t, p.rule == honoured, known, name)
		if !known {
			value = `{"a":"b"}`
		}
		if other, ok := otherValues[name]; ok {
			value = other
		}
		req, err := DecodeMessage(body(t, fmt.Sprintf("%q:%s", name, value)))
		if p.rule == refused {
			var refusal *openai.Error
			require.ErrorAs(t, err, &refusal, name)
			if name != "thread" {
				assert.Equal(t, "unsupported_parameter", refusal.Code, name)
			}
			assert.Equal(t, name, refusal.Param)
			continue
		}
		require.NoError(t, err, name)
		assert.Equal(t, p.rule == ignored, slices.Contains(req.Ignored, name), name)
	}
}

// A parameter that is null, false or empty is not there.
func TestEmptyParameters(t *testing.T) {
	for name := range params {
		if name == "model" || name == "messages" || name == "max_tokens" {
			continue
		}
		req, err := DecodeMessage(body(t, fmt.Sprintf("%q:null", name)))
		require.NoError(t, err, name)
		assert.Equal(t, []string{"max_tokens"}, req.Ignored, name)
	}
}

// Clients send fields before any reference has them.
func TestUnknownParametersAreIgnored(t *testing.T) {
	req, err := DecodeMessage(body(t, `"frequency_penalty":1,"new_thing":{"deep":[1]},"off":false,"odd name\r\nX-Header":1,"`+
		strings.Repeat("n", maxUnknownName+1)+`":1,"output_config":{"effort":"high","newer":1}`))
	require.NoError(t, err)
	assert.Equal(t, []string{"frequency_penalty", "max_tokens", "new_thing", "output_config.newer"}, req.Ignored,
		"names that cannot stand in a header are left out")

	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, `"p%02d":1,`, i)
	}
	req, err = DecodeMessage(body(t, strings.TrimSuffix(many.String(), ",")))
	require.NoError(t, err)
	assert.Len(t, req.Ignored, maxUnknown+1)
}

// The tool runner of Anthropic's libraries begins a thread, and goes on without one after this error alone.
// Source: @anthropic-ai/sdk, lib/internal/threads/ThreadState.
func TestThreads(t *testing.T) {
	_, err := DecodeMessage(body(t, `"thread":{"type":"create"}`))
	var refusal *openai.Error
	require.ErrorAs(t, err, &refusal)
	data, err := ErrorOf(refusal, "req_1").MarshalJSON()
	require.NoError(t, err)
	assert.JSONEq(t, `{"type":"error","error":{"type":"invalid_request_error",
		"message":"thread: no conversation is kept; send all messages, without thread",
		"details":{"error_code":"thread_unsupported_request"}},"request_id":"req_1"}`, string(data))
	assert.NoError(t, schema(t).Check(contract.AnthropicError, data))
}
