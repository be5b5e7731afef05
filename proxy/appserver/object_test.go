package appserver

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// membersOf are the members of an object, the last of each name.
func membersOf(b []byte) (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	o := openObject(b)
	for name, value, ok := o.next(); ok; name, value, ok = o.next() {
		all[string(name)] = value
	}
	return all, o.err
}

func TestObject(t *testing.T) {
	for name, tc := range map[string]struct {
		object string
		want   map[string]string
	}{
		"empty":          {` { } `, map[string]string{}},
		"all kinds":      {`{"a":1,"b":"x","c":[1,{"d":"]}"}],"e":{"f":{}},"g":null,"h":-1.5e3,"i":true}`, map[string]string{"a": "1", "b": `"x"`, "c": `[1,{"d":"]}"}]`, "e": `{"f":{}}`, "g": "null", "h": "-1.5e3", "i": "true"}},
		"space":          {"{ \"a\" : 1 ,\n\t\"b\" : [ ] }\r\n", map[string]string{"a": "1", "b": "[ ]"}},
		"escaped quotes": {`{"a":"\"","b":"\\","c":"\\\"}","d":"x"}`, map[string]string{"a": `"\""`, "b": `"\\"`, "c": `"\\\"}"`, "d": `"x"`}},
		"twice":          {`{"a":1,"a":2}`, map[string]string{"a": "2"}},
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
		``, ` `, `null`, `[]`, `"a"`, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{"a":"x}`, `{"a":"\"}`, `{"a":[1}`, `{a:1}`, `{"a" 1}`, `{"a":1}{`, `{"a":1 "b":2}`, `{,}`, `{"a":}`,
	} {
		_, err := membersOf([]byte(b))
		assert.Error(t, err, b)
	}
}

// FuzzObject compares with encoding/json: what that takes for an object has the
// same members here.
func FuzzObject(f *testing.F) {
	f.Add([]byte(`{"method":"m","params":{"a":"\"","b":[{}, 1]},"id":"\\"} `))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := membersOf(b)
		var want map[string]json.RawMessage
		if json.Unmarshal(b, &want) != nil || want == nil {
			return // only that it ends, and does not panic
		}
		require.NoError(t, err)
		for name, value := range want {
			if plain, err := json.Marshal(name); err == nil && string(plain) == `"`+name+`"` { // written without escapes, as all names that we ask for
				if raw, ok := got[name]; ok {
					assert.JSONEq(t, string(value), string(raw))
				}
			}
		}
	})
}

func TestText(t *testing.T) {
	for v, want := range map[string]string{`"x"`: "x", `""`: "", `"a\n\u00e4\ud83d\ude00"`: "a\nä😀", "\"\xff\"": "\uFFFD", `null`: ""} {
		got, err := text([]byte(v))
		require.NoError(t, err, v)
		assert.Equal(t, want, string(got), v)
	}
	for _, v := range []string{`1`, `{}`, `"x`, `"\x"`, ``} {
		_, err := text([]byte(v))
		assert.Error(t, err, v)
	}
}

// Text that comes faster than it is read is joined, so that it takes up no more
// than itself; what is between stays in its place.
func TestTextIsJoinedWhenTheConsumerIsBehind(t *testing.T) {
	m := newMailbox(&Turn{conn: &Conn{}})
	m.turnID = "tu"
	o := Options{}.withDefaults()
	delta := func(item string) {
		n := incoming{Method: textDelta, at: time.Now(), parts: parts{itemID: []byte(`"` + item + `"`), delta: []byte(`"word "`)}}
		require.True(t, m.put(n, []byte("tu"), o))
	}
	for range 1000 {
		delta("a")
	}
	require.True(t, m.put(incoming{Method: "error", at: time.Now(), Params: []byte(`{}`)}, []byte("tu"), o))
	delta("a")
	delta("b")
	assert.LessOrEqual(t, m.waiting(), behind+5)
	assert.Equal(t, 1002*len("word ")+len(`{}`), m.bytes)
	texts, order := map[string]int{}, ""
	for n, ok, _ := m.take(); ok; n, ok, _ = m.take() {
		texts[n.item] += len(n.text)
		if n.text == nil {
			order += n.Method
		} else if len(order) == 0 || order[len(order)-1:] != n.item {
			order += n.item
		}
	}
	assert.Equal(t, map[string]int{"a": 1001 * 5, "b": 5, "": 0}, texts)
	assert.Equal(t, "aerrorab", order)
	assert.Zero(t, m.bytes)
}
