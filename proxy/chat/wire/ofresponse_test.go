package wire

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/clienttool"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/openaitest"
	"codex-proxy/proxy/openai/parameter"
	"codex-proxy/proxy/responses/wire"
)

// cursor is a body as Cursor posts it to /v1/chat/completions.
const cursor = `{"model":"m","stream":true,"user":"u","stream_options":{"include_usage":true},"temperature":1,
	"input":[{"role":"system","content":"You help."},{"role":"user","content":[{"type":"input_text","text":"look"}]},
		{"type":"reasoning","summary":[]},
		{"type":"function_call","call_id":"c1","name":"messages","arguments":"{\"a\":1}"},
		{"type":"custom_tool_call","call_id":"c2","name":"patch","input":"text"},
		{"type":"function_call_output","call_id":"c1","output":"done"},
		{"type":"custom_tool_call_output","call_id":"c2","output":[{"type":"input_image","image_url":"` + openaitest.Pixel + `"}]},
		{"role":"assistant","content":"I did."},{"role":"user","content":"more"}],
	"tools":[{"type":"function","name":"messages","parameters":{"type":"object","properties":{}},"strict":false},
		{"type":"custom","name":"patch"}],
	"tool_choice":"auto","reasoning":{"effort":"medium","summary":"auto"},"include":["reasoning.encrypted_content"],
	"store":false,"seed":1,"instructions":"Be brief."}`

func TestResponseInPlaceOfAChat(t *testing.T) {
	req, err := DecodeChatOrResponse([]byte(cursor), jsonbody.Reading{})
	require.NoError(t, err)
	assert.Equal(t, []string{"include", "input.reasoning", "seed", "temperature", "user"}, req.Ignored)
	assert.True(t, req.Stream)
	assert.True(t, req.IncludeUsage)
	assert.Equal(t, parameter.Reasoning{Effort: "medium", Summary: "auto"}, req.Reasoning)
	assert.Equal(t, "input", req.Common().HistoryField)
	require.Len(t, req.Tools, 2)
	assert.True(t, req.Tools[1].Custom)
	var roles []string
	for _, m := range req.Messages {
		roles = append(roles, m.Role)
	}
	assert.Equal(t, []string{"system", "system", "user", "assistant", "assistant", "tool", "tool", "assistant", "user"}, roles)
	assert.Equal(t, "Be brief.", req.Messages[0].Parts[0].Text)
	assert.Equal(t, []clienttool.Call{{ID: "c1", Name: "messages", Arguments: `{"a":1}`}}, req.Messages[3].Calls)
	assert.Equal(t, []clienttool.Call{{ID: "c2", Name: "patch", Arguments: "text", Custom: true}}, req.Messages[4].Calls)
	require.Len(t, req.Images(), 1)
	assert.Equal(t, "input[6].output[0].image_url", req.Images()[0].At)

	_, err = Decode([]byte(cursor), jsonbody.Reading{})
	require.Error(t, err, "only who wants that takes it")
	plain, err := DecodeChatOrResponse([]byte(`{"model":"m","input":"q"}`), jsonbody.Reading{})
	require.NoError(t, err)
	assert.Equal(t, "q", plain.Messages[0].Parts[0].Text)
	chat, err := DecodeChatOrResponse([]byte(`{"model":"m","messages":[{"role":"user","content":"q"}]}`), jsonbody.Reading{})
	require.NoError(t, err)
	assert.False(t, chat.OfResponse)
}

func TestOnlyAResponseHasThat(t *testing.T) {
	for body, param := range map[string]string{
		`"input":"q","previous_response_id":"r"`:                                "previous_response_id",
		`"input":"q","conversation":"conv_1"`:                                   "conversation",
		`"input":"q","background":true`:                                         "background",
		`"input":"q","prompt_cache_options":{"prewarm":true}`:                   "prompt_cache_options",
		`"input":[{"role":"user","content":"q"},{"type":"compaction_trigger"}]`: "input",
		`"input":[{"type":"item_reference","id":"x"}]`:                          "input[0]",
		`"input":[{"type":"function_call","call_id":"c","name":"f"}]`:           "input[0]",
		`"input":[{"type":"function_call_output","call_id":"c","output":"x"}]`:  "input[0].call_id",
		`"input":[]`:                "input",
		`"input":"q","messages":[]`: "input", // a chat, which has no such parameter
		`"input":"q","n":2`:         "n",
		`"input":"q","tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]}]`: "tools",
	} {
		_, err := DecodeChatOrResponse([]byte(`{"model":"m",`+body+`}`), jsonbody.Reading{})
		var refusal *openai.Error
		require.ErrorAs(t, err, &refusal, body)
		assert.Equal(t, param, refusal.Param, body)
	}
}

func TestUnknownParameters(t *testing.T) {
	body := func(extra string) []byte {
		return []byte(`{"model":"m","messages":[{"role":"user","content":"q"}],` + extra + `}`)
	}
	_, err := Decode(body(`"top_k":40`), jsonbody.Reading{})
	var refusal *openai.Error
	require.ErrorAs(t, err, &refusal)
	assert.Equal(t, "unknown_parameter", refusal.Code)

	lenient := jsonbody.Reading{IgnoreUnknown: true}
	req, err := Decode(body(`"top_k":40,"snippy":{"enabled":false},"usage":null,"a\r\nSet-Cookie: x, ü":1,"reasoning":{"budget":3}`), lenient)
	require.NoError(t, err)
	assert.Equal(t, []string{"a??Set-Cookie:?x???", "reasoning.budget", "snippy", "top_k"}, req.Ignored)
	_, err = Decode(body(`"logprobs":true`), lenient)
	require.Error(t, err, "a known parameter keeps its rule")
	many := body(`"x0":1`)
	for i := range 100 {
		many = body(string(many[len(`{"model":"m","messages":[{"role":"user","content":"q"}],`):len(many)-1]) + `,"y` + string(rune('a'+i%26)) + string(rune('a'+i/26)) + `":1`)
	}
	req, err = Decode(many, lenient)
	require.NoError(t, err)
	assert.Len(t, req.Ignored, 33)
	assert.Contains(t, req.Ignored, "(69 more)")

	response, err := wire.Decode([]byte(`{"model":"m","input":"q","top_k":1,"reasoning":{"mode":"x","budget":2}}`), lenient)
	require.NoError(t, err)
	assert.Equal(t, []string{"reasoning.budget", "reasoning.mode", "top_k"}, response.Ignored)
}
