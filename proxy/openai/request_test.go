package openai

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDecodeChat(t *testing.T) {
	req, err := DecodeChat([]byte(`{"model":"m","stream":true,"stream_options":{"include_usage":true},
	  "temperature":0.2,"seed":7,"store":false,"logprobs":false,"tools":[],"tool_choice":"none","n":1,"reasoning_effort":"high",
	  "messages":[{"role":"system","content":"be brief"},
	    {"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"name":"x"},
	    {"role":"user","content":"hi"},
	    {"role":"assistant","content":[{"type":"refusal","refusal":"no"}],"tool_calls":null}]}`))
	require.NoError(t, err)
	assert.Equal(t, &ChatRequest{
		Model: "m", Stream: true, IncludeUsage: true, ReasoningEffort: "high",
		Ignored:  []string{"seed", "temperature"},
		Messages: []Message{{"system", "be brief"}, {"developer", "ab"}, {"user", "hi"}, {"assistant", "no"}},
	}, req)
}

func TestDecodeChatRefuses(t *testing.T) {
	with := func(extra string) string {
		return `{"model":"m","messages":[{"role":"user","content":"hi"}],` + extra + `}`
	}
	message := func(m string) string { return `{"model":"m","messages":[{"role":"user","content":"a"},` + m + `]}` }
	for _, tc := range []struct{ name, body, code, param string }{
		{"empty", "", "invalid_json", ""},
		{"cut", `{"model":`, "invalid_json", ""},
		{"array", `[]`, "invalid_type", ""},
		{"null", `null`, "invalid_json", ""},
		{"no model", `{"messages":[{"role":"user","content":"a"}]}`, "model_required", "model"},
		{"model of the wrong type", `{"model":7,"messages":[]}`, "invalid_type", "model"},
		{"no messages", `{"model":"m"}`, "messages_required", "messages"},
		{"unknown parameter", with(`"temprature":1`), "unknown_parameter", "temprature"},
		{"tools", with(`"tools":[{"type":"function"}]`), "unsupported_parameter", "tools"},
		{"stop", with(`"stop":"x"`), "unsupported_parameter", "stop"},
		{"n", with(`"n":2`), "unsupported_parameter", "n"},
		{"json mode", with(`"response_format":{"type":"json_object"}`), "unsupported_parameter", "response_format"},
		{"audio", with(`"modalities":["text","audio"]`), "unsupported_parameter", "modalities"},
		{"effort", with(`"reasoning_effort":"huge"`), "invalid_value", "reasoning_effort"},
		{"no role", message(`{"content":"x"}`), "role_required", "messages[1].role"},
		{"unknown role", message(`{"role":"wizard","content":"x"}`), "invalid_value", "messages[1].role"},
		{"tool result", message(`{"role":"tool","content":"x","tool_call_id":"c"}`), "unsupported_parameter", "messages[1].role"},
		{"tool call", message(`{"role":"assistant","tool_calls":[{"id":"c"}]}`), "unsupported_parameter", "messages[1].tool_calls"},
		{"no content", message(`{"role":"user"}`), "content_required", "messages[1].content"},
		{"null content", message(`{"role":"user","content":null}`), "content_required", "messages[1].content"},
		{"content of the wrong type", message(`{"role":"user","content":{"a":1}}`), "invalid_type", "messages[1].content"},
		{"image", message(`{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url"}]}`), "unsupported_parameter", "messages[1].content[1].type"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := DecodeChat([]byte(tc.body))
			var e *Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, http.StatusBadRequest, e.Status)
			assert.Equal(t, TypeInvalidRequest, e.Type)
			assert.Equal(t, tc.code, e.Code)
			assert.Equal(t, tc.param, e.Param)
			assert.NotEmpty(t, e.Message)
		})
	}
}

func TestErrorsDoNotEchoWithoutBound(t *testing.T) {
	_, err := DecodeChat([]byte(`{"` + strings.Repeat("x", 1<<20) + `":1}`))
	require.Error(t, err)
	assert.Less(t, len(err.Error()), 300)
}

func TestErrorEnvelope(t *testing.T) {
	data, err := json.Marshal(Unavailable("worker_not_ready", "wait", 0))
	require.NoError(t, err)
	assert.JSONEq(t, `{"error":{"message":"wait","type":"backend_unavailable","param":null,"code":"worker_not_ready","retryable":true}}`, string(data))
	data, err = json.Marshal(Invalid("c", "p", "m"))
	require.NoError(t, err)
	assert.JSONEq(t, `{"error":{"message":"m","type":"invalid_request_error","param":"p","code":"c"}}`, string(data))
}

func FuzzDecodeChat(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]}`))
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":null}],"n":null}`))
	f.Add([]byte(`{"messages":{"role":[]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := DecodeChat(body)
		if err != nil {
			var e *Error
			require.ErrorAs(t, err, &e, "every error is one a client can read")
			return
		}
		assert.NotEmpty(t, req.Model)
		assert.NotEmpty(t, req.Messages)
	})
}
