package jsonbody_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	chatwire "codex-proxy/proxy/chat/wire"
	completionwire "codex-proxy/proxy/completions/wire"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	responsewire "codex-proxy/proxy/responses/wire"
)

func TestWholeNumbers(t *testing.T) {
	for number, want := range map[string]int{"1": 1, "1.0": 1, "2.000": 2, "1e0": 1, "20e-1": 2, "null": 1} {
		body := []byte(`{"model":"m","messages":[{"role":"user","content":"q"}],"n":` + number + `}`)
		chat, err := chatwire.Decode(body, jsonbody.Reading{})
		require.NoError(t, err, number)
		assert.Equal(t, want, chat.N, number)
		assert.EqualValues(t, want, max(1, jsonbody.Weigh(body).Choices), number)
		text, err := completionwire.Decode([]byte(`{"model":"m","prompt":"q","n":`+number+`,"best_of":`+number+`}`), jsonbody.Reading{})
		require.NoError(t, err, number)
		assert.Equal(t, want, text.N, number)
		response, err := responsewire.Decode([]byte(`{"model":"m","input":"q","max_tool_calls":`+number+`}`), jsonbody.Reading{})
		require.NoError(t, err, number)
		if number != "null" {
			assert.EqualValues(t, want, *response.Blank("", 0).MaxToolCalls)
		}
		_, err = chatwire.Decode([]byte(`{"model":"m","messages":[{"role":"user","content":"q"}],"seed":`+number+`,"max_tokens":`+number+`}`), jsonbody.Reading{})
		require.NoError(t, err, number)
	}
	for number, code := range map[string]string{
		"1.5": "invalid_value", "1e400": "invalid_value", "1e30": "invalid_value", "-1.0": "invalid_value", "9.0": "invalid_value",
		`"1"`: "invalid_type", "true": "invalid_type", "99999999999999999999": "invalid_value", "9007199254740994.0": "invalid_value",
	} {
		_, err := chatwire.Decode([]byte(`{"model":"m","messages":[{"role":"user","content":"q"}],"n":`+number+`}`), jsonbody.Reading{})
		var refusal *openai.Error
		require.ErrorAs(t, err, &refusal, number)
		assert.Equal(t, code, refusal.Code, number)
		assert.Equal(t, "n", refusal.Param)
	}
}
