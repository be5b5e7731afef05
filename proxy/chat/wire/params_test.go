package wire

import (
	"reflect"
	"testing"

	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/openaitest"
)

// Every parameter in the table can be sent, and follows its rule.
func TestParametersFollowTheTable(t *testing.T) {
	values := map[string]string{ // of the honoured ones
		"model": `"m"`, "messages": `[{"role":"user","content":"x"}]`, "stream": `true`,
		"stream_options":   `{"include_usage":true}`,
		"reasoning_effort": `"low"`, "n": `2`, "response_format": `{"type":"json_object"}`, "modalities": `["text"]`,
		"reasoning": `{"summary":"auto"}`, "service_tier": `"flex"`, "verbosity": `"low"`,
		"stop":                `["x"]`,
		"parallel_tool_calls": `false`,
		"tools":               `[{"type":"function","function":{"name":"f"}}]`, "tool_choice": `"auto"`,
		"functions": `[{"name":"f"}]`, "function_call": `"auto"`,
	}
	openaitest.FollowTable(t, chatParams, `"messages":[{"role":"user","content":"x"}]`, values,
		func(body []byte) ([]string, error) {
			req, err := Decode(body, jsonbody.Reading{})
			if err != nil {
				return nil, err
			}
			return req.Ignored, nil
		})
}

func TestParametersInTheDocs(t *testing.T) {
	openaitest.InTheDocs(t, "parameters", openaitest.ParamTable(chatParams))
}

func TestParametersAreDecodedOrHaveTypes(t *testing.T) {
	openaitest.HonouredAreDecoded(t, chatParams, reflect.TypeFor[rawChat]())
	openaitest.IgnoredHaveTypes(t, chatParams)
}
