package eventstream

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/responses/wire"
)

// A response that ends without its builder keeps what its request asked for, and has one event more.
func TestEndResponse(t *testing.T) {
	req, err := wire.Decode([]byte(`{"model":"m","input":"q","background":true,"stream":true,"instructions":"be <brief> & \u2028kind",
		"metadata":{"a":"b"},"reasoning":{"effort":"low","summary":"auto"},"max_tool_calls":3,"prompt_cache_key":"k",
		"safety_identifier":"s","user":"u","parallel_tool_calls":false,"previous_response_id":"resp_1",
		"text":{"verbosity":"low","format":{"type":"json_schema","name":"n","schema":{"type":"object","properties":{},
			"additionalProperties":false,"required":[]},"strict":true}},
		"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{"x":{"const":1.50}}}}],"tool_choice":"auto"}`), jsonbody.Reading{})

	require.NoError(t, err)
	blank := req.Blank("resp_2", 5)
	blank.Status = wire.StatusQueued
	for _, c := range []struct {
		reason       *openai.Error
		status, kind string
		failure      any
	}{
		{openai.Unavailable("draining", "why", 0), "failed", "response.failed",
			map[string]any{"code": "server_error", "message": "why"}},
		{nil, "cancelled", "response.incomplete", nil},
	} {
		object, err := openai.Encode(blank)
		require.NoError(t, err)
		ended, events, err := End(object, 7, c.reason)
		require.NoError(t, err)
		require.Len(t, events, 1)
		assert.Equal(t, c.kind, events[0].Type)
		assert.Equal(t, 7, events[0].SequenceNumber)
		assert.Equal(t, ended, *events[0].Response)
		got, err := openai.Encode(ended)
		require.NoError(t, err)
		var before, after map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(object, &before))
		require.NoError(t, json.Unmarshal(got, &after))
		assert.JSONEq(t, `"`+c.status+`"`, string(after["status"]))
		for name, value := range before {
			if name != "status" && name != "error" {
				assert.Equal(t, string(value), string(after[name]), name)
			}
		}
		assert.Len(t, after, len(before))
	}
	_, _, err = End([]byte("torn"), 7, nil)
	assert.Error(t, err)
}
