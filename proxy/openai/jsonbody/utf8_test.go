package jsonbody

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTame(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"b"}`:                          `{"a":"b"}`,
		"{\"a\":\"\xff\"}":                   `{"a":"` + "\uFFFD" + `"}`,
		`["\ud83d\ude00","\uD83D\uDE00"]`:    `["\ud83d\ude00","\uD83D\uDE00"]`,
		`["\ud83d"]`:                         `["\ufffd"]`,
		`["\ude00\ud83d"]`:                   `["\ufffd\ufffd"]`,
		`["\ud83d\ud83d\ude00x"]`:            `["\ufffd\ud83d\ude00x"]`,
		`["\\ud83d","\\\ud83d","\\\\ud83d"]`: `["\\ud83d","\\\ufffd","\\\\ud83d"]`,
		`["\udz","\ud8`:                      `["\udz","\ud8`,
		`"\`:                                 `"\`,
		`["\ud83d\n"]`:                       `["\ufffd\n"]`,
	} {
		assert.Equal(t, want, string(ValidUTF8([]byte(in))))
	}
}

// FuzzUTF8: for a body that encoding/json accepts, the decoded value does not change.
func FuzzUTF8(f *testing.F) {
	f.Add([]byte(`{"a":["\ud83d\ude00\ud83d","\\","\"",{"b":"` + "\xff" + `"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var before, after any
		wrong := json.Unmarshal(body, &before)
		valid := utf8.Valid(body)
		tamed := ValidUTF8(body)
		assert.True(t, utf8.Valid(tamed))
		if wrong == nil && valid {
			require.NoError(t, json.Unmarshal(tamed, &after))
			assert.Equal(t, before, after)
		}
	})
}
