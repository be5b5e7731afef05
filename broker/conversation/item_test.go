package conversation

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// An item of an answer is the one that codex sends again in its own form, and no other.
func TestEssence(t *testing.T) {
	for _, pair := range []struct {
		endpoint, codex string
		same            bool
	}{
		{`{"id":"m","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"a","annotations":[],"logprobs":[]}]}`,
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}`, true},
		{`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}`,
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"b"}]}`, false},
		{`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}`,
			`{"type":"message","role":"user","content":[{"type":"output_text","text":"a"}]}`, false},
		{`{"id":"r","type":"reasoning","summary":[],"encrypted_content":"x","content":null,"status":null}`,
			`{"type":"reasoning","summary":[],"encrypted_content":"x"}`, true},
		{`{"id":"r","type":"reasoning","summary":[],"encrypted_content":"x"}`, `{"type":"reasoning","summary":[]}`, false},
		{`{"id":"f","type":"function_call","name":"f","arguments":"{}","call_id":"c","status":"completed"}`,
			`{"type":"function_call","name":"f","arguments":"{}","call_id":"c"}`, true},
		{`{"type":"function_call","name":"f","arguments":"{}","call_id":"c"}`,
			`{"type":"function_call","name":"f","arguments":"{ }","call_id":"c"}`, false},
	} {
		a, ok := essence([]byte(pair.endpoint))
		assert.True(t, ok)
		b, ok := essence([]byte(pair.codex))
		assert.True(t, ok)
		assert.Equal(t, pair.same, a == b, pair.codex)
	}
	for _, other := range []string{`{"type":"new_kind"}`, `[]`, `{`, `{"type":7}`} {
		_, ok := essence([]byte(other))
		assert.False(t, ok, other)
	}
}

func TestWord(t *testing.T) {
	assert.Equal(t, "x", word([]byte(`"x"`)))
	for _, other := range []string{``, `"`, `x`, `7`, `"\u0041"`} {
		assert.Empty(t, word([]byte(other)), other)
	}
	assert.Equal(t, `[1]`, string(member([]byte(`{"b":{"a":2},"a":[1]}`), "a")))
	assert.Nil(t, member([]byte(`{"b":{"a":2}}`), "a"))
}
