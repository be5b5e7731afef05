package jsonscan

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// membersOf are the members of an object, the last of each name.
func membersOf(b []byte) (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	o := Open(b)
	for name, value, ok := o.Next(); ok; name, value, ok = o.Next() {
		all[string(name)] = value
	}
	return all, o.Err()
}

func TestObject(t *testing.T) {
	for name, tc := range map[string]struct {
		object string
		want   map[string]string
	}{
		"empty": {` { } `, map[string]string{}},
		"all kinds": {`{"a":1,"b":"x","c":[1,{"d":"]}"}],"e":{"f":{}},"g":null,"h":-1.5e3,"i":true}`,
			map[string]string{"a": "1", "b": `"x"`, "c": `[1,{"d":"]}"}]`, "e": `{"f":{}}`, "g": "null", "h": "-1.5e3",
				"i": "true"}},
		"space": {"{ \"a\" : 1 ,\n\t\"b\" : [ ] }\r\n", map[string]string{"a": "1", "b": "[ ]"}},
		"escaped quotes": {`{"a":"\"","b":"\\","c":"\\\"}","d":"x"}`,
			map[string]string{"a": `"\""`, "b": `"\\"`, "c": `"\\\"}"`, "d": `"x"`}},
		"twice": {`{"a":1,"a":2}`, map[string]string{"a": "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := membersOf([]byte(tc.object))
			require.NoError(t, err)
			require.Len(t, got, len(tc.want))
			for name, value := range tc.want {
				assert.Equal(t, value, string(got[name]), name)
			}
		})
	}
}

func TestObjectThatIsNone(t *testing.T) {
	for _, b := range []string{
		``, ` `, `null`, `[]`, `"a"`, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{"a":"x}`, `{"a":"\"}`,
		`{"a":[1}`, `{a:1}`, `{"a" 1}`, `{"a":1}{`, `{"a":1 "b":2}`, `{,}`, `{"a":}`,
	} {
		_, err := membersOf([]byte(b))
		assert.Error(t, err, b)
	}
}

// FuzzObject compares with encoding/json: an object that it accepts has the same members here.
func FuzzObject(f *testing.F) {
	f.Add([]byte(`{"method":"m","params":{"a":"\"","b":[{}, 1]},"id":"\\"} `))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := membersOf(b)
		var want map[string]json.RawMessage
		if json.Unmarshal(b, &want) != nil || want == nil {
			return // Open ended and did not panic
		}
		require.NoError(t, err)
		for name, value := range want {
			// written without escapes, like all names in use
			if plain, err := json.Marshal(name); err == nil && string(plain) == `"`+name+`"` {
				if raw, ok := got[name]; ok {
					assert.JSONEq(t, string(value), string(raw))
				}
			}
		}
	})
}

func TestText(t *testing.T) {
	for v, want := range map[string]string{`"x"`: "x", `""`: "", `"a\n\u00e4\ud83d\ude00"`: "a\nä😀",
		"\"\xff\"": "\uFFFD", `null`: ""} {
		got, err := Text([]byte(v))
		require.NoError(t, err, v)
		assert.Equal(t, want, string(got), v)
	}
	for _, v := range []string{`1`, `{}`, `"x`, `"\x"`, ``} {
		_, err := Text([]byte(v))
		assert.Error(t, err, v)
	}
}
