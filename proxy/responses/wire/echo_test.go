package wire

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/openaitest"
)

// blank is the response to the request as JSON, and what the request has ignored.
func blank(t *testing.T, body string) (fields map[string]any, ignored []string) {
	t.Helper()
	req, err := Decode([]byte(body), jsonbody.Reading{})
	require.NoError(t, err)
	data, err := json.Marshal(req.Blank("resp_1", 1))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &fields))
	return fields, req.Ignored
}

func TestResponsesRepeatTheRequest(t *testing.T) {
	for body, want := range map[string]map[string]any{
		`{"model":"m","input":"x"}`: {"service_tier": "auto", "max_tool_calls": nil, "prompt_cache_key": nil,
			"safety_identifier": nil, "user": nil, "top_logprobs": 0.0, "truncation": "disabled"},
		`{"model":"m","input":"x","service_tier":"flex","max_tool_calls":2,"prompt_cache_key":"k",
			"safety_identifier":"s","user":"u","top_logprobs":0,"truncation":"auto"}`: {"service_tier": "flex",
			"max_tool_calls": 2.0, "prompt_cache_key": "k", "safety_identifier": "s", "user": "u", "top_logprobs": 0.0,
			"truncation": "disabled"},
	} {
		fields, ignored := blank(t, body)
		set := []string{}
		for name, value := range want {
			assert.Equal(t, value, fields[name], name)
			if value != nil && name != "service_tier" && name != "top_logprobs" && name != "truncation" {
				set = append(set, name)
			}
		}
		if fields["service_tier"] == "flex" {
			set = append(set, "truncation")
		}
		assert.ElementsMatch(t, set, ignored)
	}
}

// Records of OpenAI's hosted tools in a history are left out, and named.
func TestRecordsOfHostedToolsAreIgnored(t *testing.T) {
	req, err := Decode([]byte(`{"model":"m","input":[{"role":"user","content":"q"},
		{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"q",
		"sources":[{"type":"url","url":"https://x.example"}]}},
		{"type":"file_search_call","id":"fs_1","queries":["q"],"results":null},
		{"type":"code_interpreter_call","id":"ci_1","code":"1","outputs":[{"type":"logs","logs":"1"}]},
		{"type":"mcp_list_tools","id":"ml_1","server_label":"s","tools":[{"name":"t","input_schema":{}}]},
		{"type":"mcp_call","id":"mc_1","name":"t","arguments":"{}","server_label":"s","output":"1"},
		{"role":"assistant","content":"a"},{"role":"user","content":"b"}]}`), jsonbody.Reading{})

	require.NoError(t, err)
	assert.Len(t, req.Input, 3)
	assert.Equal(t, []string{"input.code_interpreter_call", "input.file_search_call", "input.mcp_call",
		"input.mcp_list_tools", "input.web_search_call"}, req.Ignored)
}

// Items are stored with every field that OpenAI's types require, also empty ones.
func TestItemsHaveTheirFields(t *testing.T) {
	req, err := Decode([]byte(`{"model":"m","input":[{"role":"user","content":[]},
		{"role":"user","content":[{"type":"input_image","image_url":"`+openaitest.Pixel+`"},
		{"type":"input_image","image_url":"`+openaitest.Pixel+`","detail":"high"}]},
		{"role":"assistant","content":"a"},{"type":"reasoning","id":"rs_1"},
		{"type":"custom_tool_call","call_id":"c","name":"p"},
		{"type":"custom_tool_call_output","call_id":"c","output":""},
		{"type":"tool_search_call","call_id":"s","arguments":{}},{"type":"tool_search_output","call_id":"s"},
		{"type":"additional_tools"}]}`), jsonbody.Reading{})

	require.NoError(t, err)
	for i, want := range []string{
		`{"type":"message","status":"completed","role":"user","content":[]}`,
		`{"type":"message","status":"completed","role":"user","content":[
			{"type":"input_image","image_url":"` + openaitest.Pixel + `","detail":"auto"},
			{"type":"input_image","image_url":"` + openaitest.Pixel + `","detail":"high"}]}`,
		`{"type":"message","status":"completed","role":"assistant",
			"content":[{"type":"output_text","annotations":[],"text":"a"}]}`,
		`{"type":"reasoning","id":"rs_1","summary":[]}`,
		`{"type":"custom_tool_call","status":"completed","call_id":"c","name":"p","input":""}`,
		`{"type":"custom_tool_call_output","status":"completed","call_id":"c","output":""}`,
		`{"type":"tool_search_call","status":"completed","call_id":"s","arguments":{},"execution":"client"}`,
		`{"type":"tool_search_output","status":"completed","call_id":"s","execution":"client","tools":[]}`,
		`{"type":"additional_tools","role":"developer","tools":[]}`,
	} {
		data, err := req.Input[i].Encode()
		require.NoError(t, err)
		assert.JSONEq(t, want, string(data))
		back, err := DecodeItem(data)
		require.NoError(t, err)
		again, err := back.Encode()
		require.NoError(t, err)
		assert.Equal(t, string(data), string(again))
	}
	stored, err := req.Input[1].Encode()
	require.NoError(t, err)
	back, err := DecodeItem(stored)
	require.NoError(t, err)
	assert.Equal(t, req.Input[1].Content[0].Image.Detail, back.Content[0].Image.Detail, "codex gets the same image")
}

// Typed clients refuse a tool without the members that OpenAI's schema requires.
func TestToolsAreRepeatedWhole(t *testing.T) {
	const function = `"type":"function","name":"f"`
	for sent, want := range map[string]string{
		`{` + function + `}`: `{` + function + `,"strict":false,"parameters":{"type":"object","properties":{}}}`,
		`{` + function + `,"strict":null,"parameters":null,"defer_loading":true}`: `{` + function +
			`,"strict":false,"defer_loading":true,"parameters":{"type":"object","properties":{}}}`,
		`{` + function + `,"strict":true,"parameters":{"type":"object","properties":{"a":{"type":"integer","maximum":9007199254740993}}}}`: `{` +
			function + `,"strict":true,"parameters":{"type":"object","properties":{"a":{"type":"integer","maximum":9007199254740993}}}}`,
		`{"type":"custom","name":"c"}`: `{"type":"custom","name":"c"}`,
		`{"type":"namespace","name":"n","tools":[{` + function + `}]}`: `{"type":"namespace","name":"n","description":"","tools":[{` +
			function + `,"strict":false,"parameters":{"type":"object","properties":{}}}]}`,
	} {
		req, err := Decode([]byte(`{"model":"m","input":"x","tools":[`+sent+`]}`), jsonbody.Reading{})
		require.NoError(t, err, sent)
		data, err := json.Marshal(req.Blank("resp_1", 1).Tools)
		require.NoError(t, err)
		assert.JSONEq(t, `[`+want+`]`, string(data))
	}
}
