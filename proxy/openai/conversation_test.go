package openai

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDecodeConversation(t *testing.T) {
	req, err := DecodeConversation([]byte(`{"metadata":{"a":"b"},"items":[{"role":"user","content":"x"},
		{"type":"web_search_call"},{"type":"function_call_output","id":"fco_1","call_id":"c","output":"y"}]}`))
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"a": "b"}, req.Metadata)
	require.Len(t, req.Items, 2)
	assert.Equal(t, "user", req.Items[0].Role)
	assert.Equal(t, "items[2]", req.Items[1].At)
	assert.Equal(t, []string{"items.web_search_call"}, req.Ignored)
	for _, body := range []string{`{}`, `{"items":null,"metadata":null}`} {
		req, err = DecodeConversation([]byte(body))
		require.NoError(t, err)
		assert.NotNil(t, req.Metadata)
		assert.Empty(t, req.Items)
	}
	_, err = DecodeConversationItems([]byte(`{"items":[]}`))
	assert.NoError(t, err)
}

func TestDecodeConversationRefuses(t *testing.T) {
	const message = `{"role":"user","content":"x"}`
	for _, tc := range []struct {
		name   string
		decode func([]byte) (*ConversationRequest, error)
		body   string
		code   string
		param  string
	}{
		{"no object", DecodeConversation, `[]`, "invalid_json", ""},
		{"unknown", DecodeConversation, `{"item":[]}`, "unknown_parameter", "item"},
		{"items of the wrong type", DecodeConversation, `{"items":"x"}`, "invalid_type", "items"},
		{"item of the wrong type", DecodeConversation, `{"items":["x"]}`, "invalid_type", "items[0]"},
		{"role", DecodeConversation, `{"items":[` + message + `,{"role":"x","content":"x"}]}`, "invalid_value",
			"items[1].role"},
		{"reference", DecodeConversation, `{"items":[{"type":"item_reference","id":"msg_1"}]}`,
			"unsupported_parameter", "items[0]"},
		{"many items", DecodeConversation, `{"items":[` + strings.Repeat(message+",", 20) + message + `]}`,
			"invalid_value", "items"},
		{"metadata", DecodeConversation, `{"metadata":{"a":1}}`, "invalid_type", "metadata.a"},
		{"a member twice", DecodeConversation, `{"metadata":{},"metadata":{}}`, "duplicate_name", "metadata"},
		{"items in an update", DecodeConversationUpdate, `{"items":[]}`, "unknown_parameter", "items"},
		{"an update of nothing", DecodeConversationUpdate, `{}`, "field_required", "metadata"},
		{"metadata of items", DecodeConversationItems, `{"items":[],"metadata":{}}`, "unknown_parameter", "metadata"},
		{"no items", DecodeConversationItems, `{}`, "field_required", "items"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := tc.decode([]byte(tc.body))
			var e *Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, http.StatusBadRequest, e.Status)
			assert.Equal(t, tc.code, e.Code, e.Message)
			assert.Equal(t, tc.param, e.Param)
		})
	}
}

func TestConversationUpdate(t *testing.T) {
	for body, want := range map[string]map[string]string{
		`{"metadata":{"a":"b"}}`: {"a": "b"}, `{"metadata":null}`: {}, `{"metadata":{}}`: {},
	} {
		req, err := DecodeConversationUpdate([]byte(body))
		require.NoError(t, err, body)
		assert.Equal(t, want, req.Metadata, body)
	}
}

func TestResponseInAConversation(t *testing.T) {
	for _, value := range []string{`"conv_1"`, `{"id":"conv_1"}`} {
		req, err := DecodeResponse([]byte(`{"model":"m","conversation":` + value + `}`))
		require.NoError(t, err, "it needs no input")
		assert.Equal(t, "conv_1", req.Conversation)
		blank, err := Encode(req.Blank("resp_1", 1))
		require.NoError(t, err)
		assert.Contains(t, string(blank), `"conversation":{"id":"conv_1"}`)
	}
	req, err := DecodeResponse([]byte(`{"model":"m","input":"x","conversation":null}`))
	require.NoError(t, err)
	blank, err := Encode(req.Blank("resp_1", 1))
	require.NoError(t, err)
	assert.NotContains(t, string(blank), "conversation")
}
