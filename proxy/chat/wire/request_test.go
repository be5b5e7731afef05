package wire

import (
	"net/http"
	"runtime"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/media"
	"codex-proxy/proxy/openai/openaitest"
	"codex-proxy/proxy/openai/parameter"
	"codex-proxy/proxy/responses/wire"
)

func TestDecodeChat(t *testing.T) {
	req, err := Decode([]byte(`{"model":"m","stream":true,"stream_options":{"include_usage":true},
	  "temperature":0.2,"seed":7,"store":false,"logprobs":false,"tools":[],"tool_choice":"none","n":3,
	  "reasoning_effort":"high",
	  "reasoning":{"effort":"high","summary":"detailed"},"service_tier":"priority","verbosity":"low",
	  "messages":[{"role":"system","content":"be brief"},
	    {"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"name":"x"},
	    {"role":"user","content":"hi"},
	    {"role":"assistant","content":[{"type":"refusal","refusal":"no"}],"tool_calls":null,"function_call":null,
	    "refusal":null,"audio":null},
	    {"role":"assistant","content":null,"refusal":"never"}]}`), jsonbody.Reading{})

	require.NoError(t, err)
	text := func(s, at string) []media.Part { return []media.Part{{Text: s, At: at}} }
	assert.Equal(t, &Request{
		Model: "m", Stream: true, IncludeUsage: true, N: 3, Reasoning: parameter.Reasoning{Effort: "high", Summary: "detailed"}, ServiceTier: "priority", Verbosity: "low",
		Ignored: []string{"seed", "temperature"},
		Messages: []Message{
			{Role: "system", Parts: text("be brief", "messages[0].content")},
			{Role: "developer", Name: "x", Parts: []media.Part{{Text: "a", At: "messages[1].content[0]"},
				{Text: "b", At: "messages[1].content[1]"}}},
			{Role: "user", Parts: text("hi", "messages[2].content")},
			{Role: "assistant", Parts: text("no", "messages[3].content[0]")},
			{Role: "assistant", Parts: text("never", "messages[4].refusal")},
		},
	}, req)
}

// An unset parameter is neither refused nor listed as ignored.
func TestParametersThatAskForNothing(t *testing.T) {
	for _, extra := range []string{`"response_format":{}`, `"response_format":null`, `"top_logprobs":0`,
		`"logprobs":false`, `"stop":[]`, `"stop":null`, `"stop":""`, `"tool_choice":{}`, `"tool_choice":""`, `"reasoning":{}`} {
		req, err := Decode([]byte(asking(extra)), jsonbody.Reading{})
		require.NoError(t, err, extra)
		assert.Empty(t, req.Ignored, extra)
		assert.Empty(t, req.Format, extra)
		assert.Empty(t, req.Stop, extra)
	}
	for _, extra := range []string{`"text":{"format":{}}`, `"text":{}`, `"top_logprobs":0`, `"background":false`,
		`"tool_choice":{}`} {
		req, err := wire.Decode([]byte(`{"model":"m","input":"x",`+extra+`}`), jsonbody.Reading{})
		require.NoError(t, err, extra)
		assert.Empty(t, req.Ignored, extra)
		assert.JSONEq(t, `"auto"`, string(req.Tools.Choice))
	}
}

func TestStopSequences(t *testing.T) {
	for value, want := range map[string][]string{
		`"none"`: {"none"}, `["a"]`: {"a"}, `["\n","é","c","d"]`: {"\n", "é", "c", "d"},
	} {
		req, err := Decode([]byte(asking(`"stop":`+value)), jsonbody.Reading{})
		require.NoError(t, err, value)
		assert.Equal(t, want, req.Stop)
		assert.Empty(t, req.Ignored)
	}
}

func TestDecodeChatRefuses(t *testing.T) {
	with := func(extra string) string {
		return `{"model":"m","messages":[{"role":"user","content":"hi"}],` + extra + `}`
	}
	message := func(m string) string { return `{"model":"m","messages":[{"role":"user","content":"a"},` + m + `]}` }
	part := func(p string) string {
		return message(`{"role":"user","content":[{"type":"text","text":"a"},` + p + `]}`)
	}
	for _, tc := range []struct{ name, body, code, param string }{
		{"empty", "", "invalid_json", ""},
		{"cut", `{"model":`, "invalid_json", ""},
		{"array", `[]`, "invalid_json", ""},
		{"text", `"x"`, "invalid_json", ""},
		{"null", `null`, "invalid_json", ""},
		{"no model", `{"messages":[{"role":"user","content":"a"}]}`, "model_required", "model"},
		{"model of the wrong type", `{"model":7,"messages":[]}`, "invalid_type", "model"},
		{"no messages", `{"model":"m"}`, "messages_required", "messages"},
		{"unknown parameter", with(`"temprature":1`), "unknown_parameter", "temprature"},
		{"stop of the wrong type", with(`"stop":1`), "invalid_type", "stop"},
		{"stop as an object", with(`"stop":{}`), "invalid_type", "stop"},
		{"stop without a list", with(`"stop":false`), "invalid_type", "stop"},
		{"a sequence of the wrong type", with(`"stop":["a",1]`), "invalid_type", "stop[1]"},
		{"a sequence of null", with(`"stop":[null]`), "invalid_type", "stop[0]"},
		{"an empty sequence", with(`"stop":["a",""]`), "invalid_value", "stop[1]"},
		{"five sequences", with(`"stop":["a","b","c","d","e"]`), "invalid_value", "stop"},
		{"a long sequence", with(`"stop":["` + strings.Repeat("x", 1025) + `"]`), "invalid_value", "stop[0]"},
		{"a long stop", with(`"stop":"` + strings.Repeat("x", 1025) + `"`), "invalid_value", "stop"},
		{"no choices", with(`"n":0`), "invalid_value", "n"},
		{"too many choices", with(`"n":9`), "invalid_value", "n"},
		{"format without a type", with(`"response_format":{"json_schema":{}}`), "invalid_value",
			"response_format.type"},
		{"format of other fields", with(`"response_format":{"typ":"json_object"}`), "invalid_value",
			"response_format.type"},
		{"logprobs", with(`"top_logprobs":1`), "unsupported_parameter", "top_logprobs"},
		{"half a choice", with(`"n":1.5`), "invalid_value", "n"},
		{"more choices than there are numbers", with(`"n":99999999999999999999`), "invalid_value", "n"},
		{"choices in words", with(`"n":"2"`), "invalid_type", "n"},
		{"audio out", with(`"modalities":["text","audio"]`), "unsupported_parameter", "modalities"},
		{"effort", with(`"reasoning_effort":"huge"`), "invalid_value", "reasoning_effort"},
		{"reasoning effort", with(`"reasoning":{"effort":"huge"}`), "invalid_value", "reasoning.effort"},
		{"two efforts", with(`"reasoning":{"effort":"low"},"reasoning_effort":"high"`), "invalid_value",
			"reasoning.effort"},
		{"summary", with(`"reasoning":{"summary":"long"}`), "invalid_value", "reasoning.summary"},
		{"unknown reasoning", with(`"reasoning":{"minutes":"5"}`), "unknown_parameter", "reasoning.minutes"},
		{"reasoning tokens of the wrong type", with(`"reasoning":{"max_tokens":"5"}`), "invalid_type", "reasoning"},
		{"no reasoning tokens", with(`"reasoning":{"max_tokens":0}`), "invalid_value", "reasoning.max_tokens"},
		{"reasoning of the wrong type", with(`"reasoning":"high"`), "invalid_type", "reasoning"},
		{"tier", with(`"service_tier":"bogus"`), "invalid_value", "service_tier"},
		{"verbosity", with(`"verbosity":"huge"`), "invalid_value", "verbosity"},
		{"no role", message(`{"content":"x"}`), "role_required", "messages[1].role"},
		{"unknown role", message(`{"role":"wizard","content":"x"}`), "invalid_value", "messages[1].role"},
		{"no content", message(`{"role":"user"}`), "content_required", "messages[1].content"},
		{"null content", message(`{"role":"user","content":null}`), "content_required", "messages[1].content"},
		{"no parts", message(`{"role":"user","content":[]}`), "content_required", "messages[1].content"},
		{"silent assistant", message(`{"role":"assistant","content":null}`), "content_required", "messages[1].content"},
		{"content of the wrong type", message(`{"role":"user","content":{"a":1}}`), "invalid_type",
			"messages[1].content"},
		{"name", message(`{"role":"user","content":"x","name":"a b"}`), "invalid_value", "messages[1].name"},
		{"text without text", part(`{"type":"text"}`), "content_required", "messages[1].content[1].text"},
		{"part without type", part(`{}`), "content_required", "messages[1].content[1].type"},
		{"file", part(`{"type":"file","file":{"file_id":"x"}}`), "unsupported_parameter",
			"messages[1].content[1].file.file_id"},
		{"no file", part(`{"type":"file"}`), "field_required", "messages[1].content[1].file"},
		{"file of a system", message(`{"role":"system","content":[{"type":"file","file":{"file_data":"data:,x"}}]}`),
			"unsupported_parameter", "messages[1].content[0].type"},
		{"audio", part(`{"type":"input_audio","input_audio":{"data":"","format":"wav"}}`), "unsupported_parameter",
			"messages[1].content[1].type"},
		{"audio of the past", message(`{"role":"assistant","audio":{"id":"x"}}`), "unsupported_parameter",
			"messages[1].audio"},
		{"refusal of a user", part(`{"type":"refusal","refusal":"x"}`), "unsupported_parameter",
			"messages[1].content[1].type"},
		{"image of a system", message(`{"role":"system","content":[{"type":"image_url","image_url":{"url":"x"}}]}`),
			"unsupported_parameter", "messages[1].content[0].type"},
		{"image without image", part(`{"type":"image_url"}`), "image_required", "messages[1].content[1].image_url.url"},
		{"image without URL", part(`{"type":"image_url","image_url":{}}`), "image_required",
			"messages[1].content[1].image_url.url"},
		{"image of the wrong form", part(`{"type":"image_url","image_url":["https://x"]}`), "invalid_type",
			"messages[1].content"},
		{"image by path", part(`{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}`), "invalid_image_url",
			"messages[1].content[1].image_url.url"},
		{"image detail", part(`{"type":"image_url","image_url":{"url":"https://x","detail":"huge"}}`), "invalid_value",
			"messages[1].content[1].image_url.detail"},
	} {
		t.Run(tc.name, func(t *testing.T) { rejects(t, tc.body, tc.code, tc.param) })
	}
}

// rejects fails unless the error is a 400 that names the field at fault.
func rejects(t *testing.T, body, code, param string) {
	t.Helper()
	_, err := Decode([]byte(body), jsonbody.Reading{})
	var e *openai.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, http.StatusBadRequest, e.Status)
	assert.Equal(t, openai.TypeInvalidRequest, e.Type)
	assert.Equal(t, code, e.Code, e.Message)
	assert.Equal(t, param, e.Param)
	assert.NotEmpty(t, e.Message)
	assert.Less(t, len(e.Message), 400)
}

func TestErrorsDoNotEchoWithoutBound(t *testing.T) {
	_, err := Decode([]byte(`{"`+strings.Repeat("x", 1<<20)+`":1}`), jsonbody.Reading{})
	require.Error(t, err)
	assert.Less(t, len(err.Error()), 300)
}

func FuzzDecodeChat(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]}`))
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":null}],"n":null}`))
	f.Add([]byte(`{"messages":{"role":[]}}`))
	f.Add(
		[]byte(
			`{"model":"m","messages":[{"role":"user","content":"a"}],"tools":[{"type":"function",` +
				`"function":{"name":"f","parameters":{"type":"object","x":[[[]]],"\u0078":1e400}}}]}`))
	f.Add([]byte(`{"model":"m","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object",
		"properties":{"a":{"anyOf":[true,{"$ref":"#"}]}}}}}],
		"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function",
		"function":{"name":"f"}}]}},
		"messages":[{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f",
		"arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"x"}]}`))
	f.Add([]byte(`{"model":"m","functions":[{"name":"f"}],"function_call":{"name":"f"},
		"messages":[{"role":"assistant","function_call":{"name":"f","arguments":""}},
		{"role":"function","name":"f","content":"x"},{"role":"user","content":[{"type":"image_url",
		"image_url":{"url":"data:image/png;base64,AAAA"}}]}],
		"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object","properties":{}}}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := Decode(body, jsonbody.Reading{})
		if err != nil {
			var e *openai.Error
			require.ErrorAs(t, err, &e, "every error has an envelope")
			return
		}
		assert.NotEmpty(t, req.Model)
		assert.NotEmpty(t, req.Messages)
		var asked struct {
			Tools []struct {
				Function fuzzedTool `json:"function"`
				Custom   fuzzedTool `json:"custom"`
			} `json:"tools"`
			Functions []fuzzedTool `json:"functions"`
			Format    struct {
				JSON struct {
					Schema map[string]any `json:"schema"`
					Strict bool           `json:"strict"`
				} `json:"json_schema"`
			} `json:"response_format"`
		}
		require.NoError(t, jsonv2.Unmarshal(jsonbody.ValidUTF8(body), &asked), "a strict reader accepts it")
		for _, tool := range asked.Tools {
			asked.Functions = append(asked.Functions, tool.Function, tool.Custom)
		}
		for _, tool := range req.Tools {
			assertSent(t, tool, asked.Functions)
		}
		if asked.Format.JSON.Strict { // any other is made strict
			assertSchemaSent(t, req.Format.Schema, asked.Format.JSON.Schema)
		}
	})
}

// The object reasoning of OpenRouter.
func TestRouterReasoning(t *testing.T) {
	for given, want := range map[string]struct {
		parameter.Reasoning
		ignored []string
	}{
		`{"enabled":true}`:                                {parameter.Reasoning{Summary: "auto"}, nil},
		`{"enabled":true,"summary":"concise"}`:            {parameter.Reasoning{Summary: "concise"}, nil},
		`{"enabled":true,"exclude":true,"effort":"high"}`: {parameter.Reasoning{Effort: "high", Summary: "none"}, nil},
		`{"enabled":false}`:                               {parameter.Reasoning{Summary: "none", Disabled: true}, nil},
		`{"enabled":false,"effort":"high"}`:               {parameter.Reasoning{Effort: "high", Summary: "none"}, []string{"reasoning.enabled"}},
		`{"enabled":false,"effort":"none"}`:               {parameter.Reasoning{Effort: "none", Summary: "none", Disabled: true}, nil},
		`{"max_tokens":2000}`:                             {parameter.Reasoning{}, []string{"reasoning.max_tokens"}},
		`{"exclude":false,"effort":"low"}`:                {parameter.Reasoning{Effort: "low"}, nil},
		`{"exclude":true,"summary":"auto"}`:               {parameter.Reasoning{Summary: "none"}, nil},
		`{"enabled":null,"max_tokens":null}`:              {parameter.Reasoning{}, nil},
	} {
		req := decoded(t, asking(`"reasoning":`+given))
		assert.Equal(t, want.Reasoning, req.Reasoning, given)
		assert.Equal(t, want.ignored, req.Ignored, given)
	}
}

// An image_url may be the URL itself.
func TestImageURLAsText(t *testing.T) {
	req := decoded(t, `{"model":"m","messages":[{"role":"user","content":[
		{"type":"image_url","image_url":"https://example.org/a.png","detail":"low"}]}]}`)
	assert.Equal(t, &media.Image{URL: "https://example.org/a.png", Detail: "low"}, req.Messages[0].Parts[0].Image)
	assert.Equal(t, []string{"image_url.detail"}, req.Ignored)
}

// An object of OpenRouter's fields with too many members is not decoded to its end.
func TestReasoningWithManyMembers(t *testing.T) {
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"x"}],"reasoning":{` +
		openaitest.Repeated(100_000, `"a#":1`) + `}}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Decode(body, jsonbody.Reading{})
	runtime.ReadMemStats(&after)
	var refused *openai.Error
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, "reasoning", refused.Param)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
}
