package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/jsonschema"
	"codex-proxy/proxy/openai/openaitest"
	"codex-proxy/proxy/openai/parameter"
)

func TestDecodeResponse(t *testing.T) {
	req, err := Decode([]byte(`{"model":"m","stream":true,"store":false,"instructions":"i",
		"temperature":0.2,"user":"u","truncation":"disabled","background":false,
	  "metadata":{"a":"b"},"include":["reasoning.encrypted_content","web_search_call.results",
	  "web_search_call.results"],"previous_response_id":"resp_0",
	  "reasoning":{"effort":"high","summary":"auto"},"text":{"format":{"type":"json_object"},"verbosity":"low"},
	  "service_tier":"flex","parallel_tool_calls":false,
	  "tools":[{"type":"function","name":"f","strict":true,"parameters":{"type":"object","properties":{}}},
	  {"type":"custom","name":"patch","format":{"type":"grammar","syntax":"lark","definition":"start: x"}},
	    {"type":"namespace","name":"mcp__files","tools":[{"type":"function","name":"read"}]},{"type":"function",
	    "name":"exec_command"},{"type":"web_search","external_web_access":false},{"type":"web_search",
	    "external_web_access":false}],
	  "tool_choice":{"type":"custom","name":"patch"},
	  "input":[{"role":"system","content":"s"},{"type":"message","role":"user","content":[{"type":"input_text",
	  "text":"a"},{"type":"input_image","image_url":"`+openaitest.Pixel+`","detail":"low"}]},
	    {"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"t"}],"encrypted_content":"e"},
	    {"role":"assistant","content":[{"type":"output_text","text":"b"},{"type":"refusal","refusal":"no"}]},
	    {"type":"custom_tool_call","call_id":"c","name":"patch","input":"x"},{"type":"custom_tool_call_output",
	    "call_id":"c","output":"done"},
	    {"type":"function_call","call_id":"d","name":"read","namespace":"mcp__files","arguments":"{}"},
	    {"type":"function_call_output","call_id":"d","output":[{"type":"input_image",
	    "image_url":"https://x.example/a.png"}]},
	    {"type":"item_reference","id":"msg_9"},{"id":"msg_10"}]}`), jsonbody.Reading{})

	require.NoError(t, err)
	assert.Equal(t, []string{"include", "input_image.detail", "temperature", "tools", "tools.strict", "user"},
		req.Ignored)
	assert.Equal(t, parameter.Reasoning{Effort: "high", Summary: "auto"}, req.Reasoning)
	assert.Equal(t, "flex", req.ServiceTier)
	assert.Equal(t, "low", req.Verbosity)
	assert.Equal(t, jsonschema.ObjectFormat, req.Format)
	assert.True(t, req.Encrypted)
	assert.False(t, *req.Store)
	require.Empty(t, req.Tools.Offered, "earlier items may have more tools")
	require.NoError(t, req.AddTools(nil))
	require.Len(t, req.Tools.Offered, 1, "tool_choice excludes the others")
	assert.True(t, req.Tools.Offered[0].Custom)
	assert.Contains(t, string(req.Tools.Offered[0].Wire.Parameters), "lark grammar")
	assert.Equal(t, []string{"Your next message must be a call of the function patch. Do not answer in words."},
		req.Tools.Instructions)
	require.Len(t, req.Input, 10)
	var types []string
	for _, in := range req.Input {
		types = append(types, in.Type+in.Role+in.Reference)
	}
	assert.Equal(t, []string{"messagesystem", "messageuser", "reasoning", "messageassistant", "custom_tool_call",
		"custom_tool_call_output", "function_call", "function_call_output", "msg_9", "msg_10"}, types)
	require.Len(t, req.Images(), 2)
	assert.Equal(t, "input[7].output[0].image_url", req.Images()[1].At)

	blank, err := json.Marshal(req.Blank("resp_1", 5))
	require.NoError(t, err)
	for _, want := range []string{
		`"previous_response_id":"resp_0"`, `"reasoning":{"effort":"high","summary":"auto"}`, `"metadata":{"a":"b"}`,
		`"instructions":"i"`, `"output":[]`,
		`"text":{"format":{"type":"json_object"}}`, `"tool_choice":{"type":"custom","name":"patch"}`,
		`"parallel_tool_calls":false`, `"temperature":null`, `"truncation":"disabled"`,
	} {
		assert.Contains(t, string(blank), want)
	}
}

// An item survives encoding and decoding.
func TestItemsComeBack(t *testing.T) {
	req, err := Decode([]byte(`{"model":"m","input":[{"role":"user","content":[{"type":"input_text",`+
		`"text":""},{"type":"input_image","image_url":"`+openaitest.Pixel+`"}]},
		{"type":"function_call","call_id":"d","name":"f"},{"type":"function_call_output","call_id":"d","output":""},
		{"type":"tool_search_call","call_id":"e","arguments":{"query":"q"}},{"type":"tool_search_output",
		"call_id":"e","tools":[{"type":"function","name":"found"}]},
		{"type":"additional_tools","role":"developer","tools":[{"type":"custom","name":"exec"}]},
		{"role":"assistant","content":[{"type":"output_text","text":""}`+strings.Repeat(`,{"type":"output_text","text":""}`, 999)+`]},
		{"type":"reasoning","summary":[{"type":"summary_text","text":""}`+strings.Repeat(`,{"type":"summary_text","text":"x"}`, 999)+`]}]}`), jsonbody.Reading{})

	require.NoError(t, err)
	for _, in := range req.Input {
		data, err := in.Encode()
		require.NoError(t, err)
		back, err := DecodeItem(data)
		require.NoError(t, err)
		for _, placed := range back.Images(in.At) { // computed at the first call
			assert.Positive(t, placed.Image.Decoding())
		}
		assert.Equal(t, in.Item, back, string(data))
		assert.InDelta(t, len(data), in.Size(), 150+0.05*float64(len(data)), "about")
	}
	var offered []string
	for _, tool := range req.Tools.Offered {
		offered = append(offered, tool.Name)
	}
	assert.Equal(t, []string{"found", "exec"}, offered, "tools in the input")
	require.NoError(t, req.AddTools([]json.RawMessage{[]byte(`{"type":"function","name":"exec"}`),
		[]byte(`{"type":"function","name":"earlier"}`)}))
	require.Len(t, req.Tools.Offered, 3)
	assert.True(t, req.Tools.Offered[2].Custom, "the later tool of a name counts")
	data, err := json.Marshal(OutputItem{Type: "message", ID: "msg_1", Status: "completed", Refusal: new("no")})
	require.NoError(t, err)
	made, err := DecodeItem(data)
	require.NoError(t, err)
	assert.Equal(t, []ItemPart{{Type: "output_text", Text: "no"}}, made.Content)
}

func TestDecodeResponseRefuses(t *testing.T) {
	with := func(extra string) string { return `{"model":"m","input":"x",` + extra + `}` }
	item := func(i string) string { return `{"model":"m","input":[{"role":"user","content":"x"},` + i + `]}` }
	tools := func(n int) string {
		return `{"type":"additional_tools","tools":[` + strings.Repeat(`{"type":"custom","name":"c"},`, n-1) +
			`{"type":"custom","name":"c"}]}`
	}
	pairs := func(from, to int) string {
		list := `"x":""`
		for i := range to - from {
			list += fmt.Sprintf(`,"%d":""`, from+i)
		}
		return list
	}
	for _, tc := range []struct{ name, body, code, param string }{
		{"empty", "", "invalid_json", ""},
		{"null", "null", "invalid_json", ""},
		{"array", "[]", "invalid_json", ""},
		{"no model", `{"input":"x"}`, "model_required", "model"},
		{"no input", `{"model":"m"}`, "input_required", "input"},
		{"input of the wrong type", `{"model":"m","input":{}}`, "invalid_type", "input"},
		{"item of the wrong type", item(`"y"`), "invalid_type", "input[1]"},
		{"unknown", with(`"inputs":1`), "unknown_parameter", "inputs"},
		{"warm-up", with(`"generate":false`), "unknown_parameter", "generate"},
		{"background", with(`"background":1`), "invalid_type", "background"},
		{"conversation of the wrong type", with(`"conversation":1`), "invalid_value", "conversation"},
		{"conversation without an id", with(`"conversation":{}`), "invalid_value", "conversation"},
		{"conversation and response", with(`"conversation":"c","previous_response_id":"r"`),
			"mutually_exclusive_parameters", "previous_response_id"},
		{"prompt", with(`"prompt":{"id":"p"}`), "unsupported_parameter", "prompt"},
		{"truncation", with(`"truncation":"middle"`), "invalid_value", "truncation"},
		{"no calls of tools", with(`"max_tool_calls":0`), "invalid_value", "max_tool_calls"},
		{"calls of tools", with(`"max_tool_calls":"3"`), "invalid_type", "max_tool_calls"},
		{"long user", with(`"user":"` + strings.Repeat("u", 513) + `"`), "invalid_value", "user"},
		{"user", with(`"user":1`), "invalid_type", "user"},
		{"logprobs", with(`"include":["message.output_text.logprobs"]`), "unsupported_parameter", "include[0]"},
		{"include", with(`"include":["all"]`), "invalid_value", "include[0]"},
		{"summary", with(`"reasoning":{"summary":"long"}`), "invalid_value", "reasoning.summary"},
		{"metadata value", with(`"metadata":{"a":"` + strings.Repeat("x", 513) + `"}`), "invalid_value", "metadata.a"},
		{"metadata", with(`"metadata":{` + strings.Repeat(`"a":"",`, 16) + `"a":""}`), "invalid_value", "metadata"},
		{"metadata twice", with(`"metadata":{` + pairs(0, 15) + `},"metadata":{` + pairs(9, 24) + `}`),
			"duplicate_name", "metadata"},
		{"metadata number", with(`"metadata":{"a":1}`), "invalid_type", "metadata.a"},
		{"format", with(`"text":{"format":{"type":"xml"}}`), "invalid_value", "text.format.type"},
		{"schema", with(`"text":{"format":{"type":"json_schema","name":"n"}}`), "schema_required",
			"text.format.schema"},
		{"verbosity", with(`"text":{"verbosity":"loud"}`), "invalid_value", "text.verbosity"},
		{"hosted tool", with(`"tools":[{"type":"file_search"}]`), "unsupported_parameter", "tools[0].type"},
		{"web search", with(`"tools":[{"type":"web_search","external_web_access":true}]`), "unsupported_parameter",
			"tools[0].type"},
		{"hosted tool in a namespace", with(
			`"tools":[{"type":"namespace","name":"n","tools":[{"type":"namespace","name":"m"}]}]`),
			"unsupported_parameter", "tools[0].tools[0].type"},
		{"tool name", with(`"tools":[{"type":"function","name":"a b"}]`), "invalid_value", "tools[0].name"},
		{"twice",
			with(
				`"tools":[{"type":"function","name":"n__f"},{"type":"namespace","name":"n",` +
					`"tools":[{"type":"function","name":"f"}]}]`), "invalid_value", "tools[1].tools[0].name"},
		{"group", with(`"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[` +
			strings.Repeat("1,", 512) + `1]}`), "invalid_value", "tool_choice.tools"},
		{"more tools than can be read", item(tools(jsonbody.MaxList/2) + "," + tools(jsonbody.MaxList/2) + "," + tools(1)),
			"invalid_value", "input[3].tools"},
		{"and in a namespace", item(`{"type":"additional_tools","tools":[{"type":"namespace","name":"n","tools":[` +
			strings.Repeat(`{"type":"custom","name":"c"},`, jsonbody.MaxList) + `1]}]}`),
			"invalid_value", "input[1].tools[0].tools"},
		{"choice", with(`"tool_choice":{"type":"function","name":"f"}`), "invalid_value", "tool_choice"},
		{"role", item(`{"role":"tool","content":"x"}`), "invalid_value", "input[1].role"},
		{"no content", item(`{"role":"user"}`), "content_required", "input[1].content"},
		{"file", item(`{"role":"user","content":[{"type":"input_file"}]}`), "field_required",
			"input[1].content[0].file_data"},
		{"assistant's file", item(`{"role":"assistant","content":[{"type":"input_file","file_data":"data:,x"}]}`),
			"invalid_value", "input[1].content[0].type"},
		{"image by file", item(`{"role":"user","content":[{"type":"input_image","file_id":"f"}]}`),
			"unsupported_parameter", "input[1].content[0].file_id"},
		{"no image", item(`{"role":"user","content":[{"type":"input_image","image_url":"data:text/plain,x"}]}`),
			"invalid_image_url", "input[1].content[0].image_url"},
		{"assistant's image", item(`{"role":"assistant","content":[{"type":"input_image","image_url":"` + openaitest.Pixel +
			`"}]}`), "invalid_value", "input[1].content[0].type"},
		{"summary of the wrong type", item(`{"type":"reasoning","summary":"x"}`), "invalid_type", "input[1].summary"},
		{"part of a summary", item(`{"type":"reasoning","summary":[{"type":"summary_text"},{"type":"text"}]}`),
			"unsupported_parameter", "input[1].summary[1].type"},
		{"item type", item(`{"type":"computer_call"}`), "unsupported_parameter", "input[1].type"},
		{"call without id", item(`{"type":"function_call","name":"f"}`), "field_required", "input[1].call_id"},
		{"output without output", item(`{"type":"function_call_output","call_id":"c"}`), "field_required",
			"input[1].output"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Decode([]byte(tc.body), jsonbody.Reading{})
			var e *openai.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, http.StatusBadRequest, e.Status)
			assert.Equal(t, tc.code, e.Code, e.Message)
			assert.Equal(t, tc.param, e.Param)
			assert.NotEmpty(t, e.Message)
		})
	}
}

// Every parameter of responses can be sent, and follows its rule.
func TestResponseParametersFollowTheTable(t *testing.T) {
	values := map[string]string{ // of the honoured ones
		"model": `"m"`, "input": `"x"`, "instructions": `"i"`, "stream": `true`,
		"tools": `[{"type":"function","name":"f"}]`, "tool_choice": `"auto"`,
		"parallel_tool_calls": `false`, "text": `{"format":{"type":"text"}}`, "service_tier": `"flex"`,
		"reasoning": `{"effort":"low"}`,
		"metadata":  `{"a":"b"}`, "include": `["reasoning.encrypted_content"]`, "store": `true`,
		"previous_response_id": `"resp_1"`, "truncation": `"disabled"`, "max_tool_calls": `3`,
		"generate": `false`, "conversation": `{"id":"conv_1"}`, "background": `true`,
	}
	for name, p := range Params {
		value, known := values[name]
		if !known {
			require.NotEqual(t, jsonbody.Honoured, p.Rule, "%s: give this test a value", name)
			value = openaitest.Valid(name)
		}
		parameters := map[string]json.RawMessage{"type": []byte(`"response.create"`), "model": []byte(`"m"`),
			"input": []byte(`"x"`)}
		parameters[name] = json.RawMessage(value)
		body, err := json.Marshal(parameters)
		require.NoError(t, err)
		decode := DecodeCreate
		if name == "background" { // not on a WebSocket
			decode, body = Decode, bytes.Replace(body, []byte(`,"type":"response.create"`), nil, 1)
		}
		req, err := decode(body, jsonbody.Reading{})
		if p.Rule == jsonbody.Refused {
			var refusal *openai.Error
			require.ErrorAs(t, err, &refusal, name)
			assert.Equal(t, "unsupported_parameter", refusal.Code, name)
			assert.Equal(t, name, refusal.Param)
			continue
		}
		require.NoError(t, err, name)
		assert.Equal(t, p.Rule == jsonbody.Ignored, slices.Contains(req.Ignored, name), name)
	}
}

func FuzzDecodeResponse(f *testing.F) {
	f.Add(
		[]byte(
			`{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"a"}]}],` +
				`"tools":[{"type":"namespace","name":"n","tools":[{}]}]}`))
	f.Add(
		[]byte(
			`{"model":"m","input":[{"type":"function_call_output","call_id":"c","output":[null]}],` +
				`"tool_choice":{"type":"custom"}}`))
	f.Add([]byte(`{"model":"m","input":"a","tools":[{"type":"function","name":"f","parameters":{"type":"object",
		"x":1,"\u0078":[[]]}},{"type":"custom","name":"g"}],
		"text":{"format":{"type":"json_schema","name":"s","schema":{"type":"object","properties":{},"required":[],
		"additionalProperties":false}}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := Decode(body, jsonbody.Reading{})
		if err != nil {
			var e *openai.Error
			require.ErrorAs(t, err, &e, "every error has an envelope")
			return
		}
		for _, in := range req.Input {
			_, err := json.Marshal(in.Item)
			require.NoError(t, err)
		}
		_, err = json.Marshal(req.Blank("resp_1", 1))
		require.NoError(t, err)
		body = jsonbody.ValidUTF8(body)
		require.True(t, jsontext.Value(body).IsValid(), "a strict reader accepts it")
		for _, tool := range req.Tools.Offered {
			openaitest.AssertReadable(t, tool.Wire.Parameters)
			assert.True(t, tool.Custom || bytes.Contains(body, tool.Wire.Parameters) ||
				string(tool.Wire.Parameters) == emptyObject)
		}
		if req.Format.Schema != nil {
			openaitest.AssertReadable(t, req.Format.Schema)
		}
	})
}
