package openai

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWholeNumbers(t *testing.T) {
	for number, want := range map[string]int{"1": 1, "1.0": 1, "2.000": 2, "1e0": 1, "20e-1": 2, "null": 1} {
		body := []byte(`{"model":"m","messages":[{"role":"user","content":"q"}],"n":` + number + `}`)
		chat, err := DecodeChat(body)
		require.NoError(t, err, number)
		assert.Equal(t, want, chat.N, number)
		assert.EqualValues(t, want, max(1, Weigh(body).Choices), number)
		text, err := DecodeCompletion([]byte(`{"model":"m","prompt":"q","n":` + number + `,"best_of":` + number + `}`))
		require.NoError(t, err, number)
		assert.Equal(t, want, text.N, number)
		response, err := DecodeResponse([]byte(`{"model":"m","input":"q","max_tool_calls":` + number + `}`))
		require.NoError(t, err, number)
		if number != "null" {
			assert.EqualValues(t, want, *response.Blank("", 0).MaxToolCalls)
		}
		_, err = DecodeChat([]byte(`{"model":"m","messages":[{"role":"user","content":"q"}],"seed":` + number + `,"max_tokens":` + number + `}`))
		require.NoError(t, err, number)
	}
	for number, code := range map[string]string{
		"1.5": "invalid_value", "1e400": "invalid_value", "1e30": "invalid_value", "-1.0": "invalid_value", "9.0": "invalid_value",
		`"1"`: "invalid_type", "true": "invalid_type", "99999999999999999999": "invalid_value", "9007199254740994.0": "invalid_value",
	} {
		_, err := DecodeChat([]byte(`{"model":"m","messages":[{"role":"user","content":"q"}],"n":` + number + `}`))
		var refusal *Error
		require.ErrorAs(t, err, &refusal, number)
		assert.Equal(t, code, refusal.Code, number)
		assert.Equal(t, "n", refusal.Param)
	}
}
