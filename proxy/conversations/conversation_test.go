package conversations

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
)

func TestDecodeConversation(t *testing.T) {
	req, err := DecodeNew([]byte(`{"metadata":{"a":"b"},"items":[{"role":"user","content":"x"},
		{"type":"web_search_call"},{"type":"function_call_output","id":"fco_1","call_id":"c","output":"y"}]}`), jsonbody.Reading{})

	require.NoError(t, err)
	assert.Equal(t, map[string]string{"a": "b"}, req.Metadata)
	require.Len(t, req.Items, 2)
	assert.Equal(t, "user", req.Items[0].Role)
	assert.Equal(t, "items[2]", req.Items[1].At)
	assert.Equal(t, []string{"items.web_search_call"}, req.Ignored)
	for _, body := range []string{`{}`, `{"items":null,"metadata":null}`} {
		req, err = DecodeNew([]byte(body), jsonbody.Reading{})
		require.NoError(t, err)
		assert.NotNil(t, req.Metadata)
		assert.Empty(t, req.Items)
	}
	_, err = DecodeItems([]byte(`{"items":[]}`), jsonbody.Reading{})
	assert.NoError(t, err)
}

func TestDecodeConversationRefuses(t *testing.T) {
	const message = `{"role":"user","content":"x"}`
	for _, tc := range []struct {
		name   string
		decode func([]byte, jsonbody.Reading) (*Request, error)
		body   string
		code   string
		param  string
	}{
		{"no object", DecodeNew, `[]`, "invalid_json", ""},
		{"unknown", DecodeNew, `{"item":[]}`, "unknown_parameter", "item"},
		{"items of the wrong type", DecodeNew, `{"items":"x"}`, "invalid_type", "items"},
		{"item of the wrong type", DecodeNew, `{"items":["x"]}`, "invalid_type", "items[0]"},
		{"role", DecodeNew, `{"items":[` + message + `,{"role":"x","content":"x"}]}`, "invalid_value",
			"items[1].role"},
		{"reference", DecodeNew, `{"items":[{"type":"item_reference","id":"msg_1"}]}`,
			"unsupported_parameter", "items[0]"},
		{"many items", DecodeNew, `{"items":[` + strings.Repeat(message+",", 20) + message + `]}`,
			"invalid_value", "items"},
		{"metadata", DecodeNew, `{"metadata":{"a":1}}`, "invalid_type", "metadata.a"},
		{"a member twice", DecodeNew, `{"metadata":{},"metadata":{}}`, "duplicate_name", "metadata"},
		{"items in an update", DecodeUpdate, `{"items":[]}`, "unknown_parameter", "items"},
		{"an update of nothing", DecodeUpdate, `{}`, "field_required", "metadata"},
		{"metadata of items", DecodeItems, `{"items":[],"metadata":{}}`, "unknown_parameter", "metadata"},
		{"no items", DecodeItems, `{}`, "field_required", "items"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := tc.decode([]byte(tc.body), jsonbody.Reading{})
			var e *openai.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, http.StatusBadRequest, e.Status)
			assert.Equal(t, tc.code, e.Code, e.Message)
			assert.Equal(t, tc.param, e.Param)
		})
	}
}

func TestUnknownParametersOfAConversation(t *testing.T) {
	req, err := DecodeNew([]byte(`{"title":"t"}`), jsonbody.Reading{IgnoreUnknown: true})
	require.NoError(t, err)
	assert.Equal(t, []string{"title"}, req.Ignored)
}

func TestConversationUpdate(t *testing.T) {
	for body, want := range map[string]map[string]string{
		`{"metadata":{"a":"b"}}`: {"a": "b"}, `{"metadata":null}`: {}, `{"metadata":{}}`: {},
	} {
		req, err := DecodeUpdate([]byte(body), jsonbody.Reading{})
		require.NoError(t, err, body)
		assert.Equal(t, want, req.Metadata, body)
	}
}
