package wire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/chat/wire"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/media"
	"codex-proxy/proxy/openai/openaitest"
)

func completing(extra string) string { return `{"model":"m","prompt":"Once",` + extra + `}` }

func TestDecodeCompletion(t *testing.T) {
	prompted := func(text string) []wire.Message {
		return []wire.Message{{Role: "user", Parts: []media.Part{{Text: text, At: "prompt"}}}}
	}
	for body, want := range map[string]Request{
		`{"model":"m","prompt":""}`:         {Request: wire.Request{Model: "m", N: 1, Messages: prompted("")}},
		`{"model":"m","prompt":["Once\n"]}`: {Request: wire.Request{Model: "m", N: 1, Messages: prompted("Once\n")}},
		completing(`"stream":true,"stream_options":{"include_usage":true},"n":2,"best_of":2,"echo":true,` +
			`"stop":["x"],"max_tokens":16,"temperature":0,"logprobs":null,"suffix":"","logit_bias":{}`): {
			Echo: "Once",
			Request: wire.Request{Model: "m", N: 2, Stream: true, IncludeUsage: true, Stop: []string{"x"},
				Ignored: []string{"max_tokens", "temperature"}, Messages: prompted("Once")},
		},
	} {
		req, err := Decode([]byte(body), jsonbody.Reading{})
		require.NoError(t, err, body)
		assert.Equal(t, &want, req)
		assert.Equal(t, "prompt", req.Common().HistoryField)
	}
}

func TestDecodeCompletionRefuses(t *testing.T) {
	prompt := func(value string) string { return `{"model":"m","prompt":` + value + `}` }
	for _, tc := range []struct{ name, body, code, param string }{
		{"no JSON", `{"model":`, "invalid_json", ""},
		{"no model", `{"prompt":"x"}`, "model_required", "model"},
		{"a long model", `{"prompt":"x","model":"` + strings.Repeat("m", 257) + `"}`, "invalid_value", "model"},
		{"no prompt", `{"model":"m"}`, "field_required", "prompt"},
		{"null", prompt(`null`), "field_required", "prompt"},
		{"no prompts", prompt(`[]`), "field_required", "prompt"},
		{"two prompts", prompt(`["a","b"]`), "unsupported_parameter", "prompt"},
		{"tokens", prompt(`[1,2]`), "unsupported_parameter", "prompt"},
		{"lists of tokens", prompt(`[[1],[2]]`), "unsupported_parameter", "prompt"},
		{"an object", prompt(`{}`), "invalid_type", "prompt"},
		{"a list of objects", prompt(`[{}]`), "invalid_type", "prompt[0]"},
		{"messages", `{"model":"m","messages":[]}`, "unknown_parameter", "messages"},
		{"no choices", completing(`"n":0`), "invalid_value", "n"},
		{"best of more", completing(`"n":2,"best_of":3`), "unsupported_parameter", "best_of"},
		{"stop", completing(`"stop":[1]`), "invalid_type", "stop[0]"},
		{"suffix", completing(`"suffix":"end"`), "unsupported_parameter", "suffix"},
		{"logprobs", completing(`"logprobs":0`), "unsupported_parameter", "logprobs"},
		{"echo of the wrong type", completing(`"echo":"yes"`), "invalid_type", "echo"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Decode([]byte(tc.body), jsonbody.Reading{})
			var invalid *openai.Error
			require.ErrorAs(t, err, &invalid)
			assert.Equal(t, tc.code, invalid.Code)
			assert.Equal(t, tc.param, invalid.Param)
			assert.Equal(t, 400, invalid.Status)
		})
	}
}

func TestCompletionParametersFollowTheTable(t *testing.T) {
	openaitest.FollowTable(t, completionParams, `"prompt":"x"`, map[string]string{
		"model": `"m"`, "prompt": `"x"`, "stream": `true`, "stream_options": `{"include_usage":true}`, "n": `2`,
		"best_of": `1`, "echo": `true`, "stop": `["x"]`,
	}, func(body []byte) ([]string, error) {
		req, err := Decode(body, jsonbody.Reading{})
		if err != nil {
			return nil, err
		}
		return req.Ignored, nil
	})
}

func FuzzDecodeCompletion(f *testing.F) {
	f.Add([]byte(completing(`"stop":["a","b"],"n":2,"best_of":2,"echo":true,"logprobs":null`)))
	f.Add([]byte(`{"model":"m","prompt":["Once",1]}`))
	f.Add([]byte(`{"model":"m","prompt":[[1,2],[3]],"stop":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := Decode(body, jsonbody.Reading{})
		if err != nil {
			var e *openai.Error
			require.ErrorAs(t, err, &e, "every error has an envelope")
			return
		}
		assert.NotEmpty(t, req.Model)
		assert.Len(t, req.Messages, 1)
		assert.LessOrEqual(t, len(req.Stop), 4)
		for _, s := range req.Stop {
			assert.NotEmpty(t, s)
		}
	})
}
