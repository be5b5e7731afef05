package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/clienttool"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/openaitest"
	"codex-proxy/proxy/responses/wire"
)

// No object may have two members of the same name, at any depth and with any escapes.
func TestDuplicateNames(t *testing.T) {
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, `"%d":{},`, i)
	}
	tool := func(parameters string) string {
		return asking(`"tools":[{"type":"function","function":{"name":"f","parameters":` + parameters + `}}]`)
	}
	const schema = "tools[0].function.parameters"
	for name, tc := range map[string]struct{ body, param string }{
		"top":           {`{"model":"m","model":"n","messages":[{"role":"user","content":"x"}]}`, "model"},
		"escaped":       {`{"model":"m","mode\u006c":"n","messages":[{"role":"user","content":"x"}]}`, "model"},
		"unknown":       {asking(`"user":"a","user":"b"`), "user"},
		"message":       {asking(`"metadata":{"a":[{"b":1},{"b":1,"c":{},"b":2}]}`), "metadata.a[1].b"},
		"deep":          {tool(`{"type":"object","x":` + deep + `,"x":1}`), schema + ".x"},
		"deep, escaped": {tool(`{"type":"object","x":` + deep + `,"\u0078":1}`), schema + ".x"},
		"type":          {tool(`{"type":"string","type":"object"}`), schema + ".type"},
		"of many": {tool(`{"type":"object","properties":{` + many.String() + `"99":{}}}`),
			schema + ".properties[99]"},
		"empty": {asking(`"metadata":{"":"a","":"b"}`), "metadata."},
		"format": {
			asking(`"response_format":{"type":"text","json_schema":{"name":"f","schema":{"a":1,"b":2,"a":` + deep +
				`}}}`), "response_format.json_schema.schema.a"},
		"long": {asking(`"metadata":{"` + strings.Repeat("x", 9000) + `":1,"` + strings.Repeat("x", 9000) +
			`":1}`), "metadata." + strings.Repeat("x", 64) + "…"},
	} {
		t.Run(name, func(t *testing.T) { rejects(t, tc.body, "duplicate_name", tc.param) })
	}
	for _, body := range []string{
		asking(`"prediction":{"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}],"A":"a","a\\":"\"a\":1,\"a\":1"}`),
		tool(`{"type":"object","properties":{` + many.String() + `"100":{}}}`),
	} {
		_, err := Decode([]byte(body), jsonbody.Reading{})
		assert.NoError(t, err, body)
	}
	_, err := wire.DecodeMessage([]byte(`{"type":"response.create","type":"response.cancel","response_id":"r"}`))
	var e *openai.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, "duplicate_name", e.Code)
	m, err := wire.DecodeMessage([]byte(`{"Type":"response.cancel","type":"response.create"}`))
	require.NoError(t, err)
	assert.Equal(t, "response.create", m.Type)
}

// fuzzedTool is a function in a body.
type fuzzedTool struct {
	Name       string         `json:"name"`
	Parameters jsontext.Value `json:"parameters"`
}

// assertSent fails unless the schema of a tool equals that in the body, byte for byte.
func assertSent(t *testing.T, tool clienttool.Tool, asked []fuzzedTool) {
	t.Helper()
	at := slices.IndexFunc(asked, func(a fuzzedTool) bool { return a.Name == tool.Name })
	require.GreaterOrEqual(t, at, 0)
	if tool.Custom { // its schema is made here
		return
	}
	want := asked[at].Parameters
	if jsonbody.IsUnset(json.RawMessage(want)) {
		want = jsontext.Value(`{"type":"object","properties":{}}`)
	}
	assert.Equal(t, string(bytes.TrimSpace(want)), string(bytes.TrimSpace(tool.Wire.Parameters)))
	openaitest.AssertReadable(t, tool.Wire.Parameters)
}

// assertSchemaSent fails unless the schema of an answer equals that in the body, with a title and a description.
func assertSchemaSent(t *testing.T, sent json.RawMessage, asked map[string]any) {
	t.Helper()
	if sent == nil {
		return
	}
	got := openaitest.AssertReadable(t, sent)
	for _, key := range []string{"title", "description"} {
		if _, has := asked[key]; !has {
			delete(got, key)
		}
	}
	assert.True(t, maps.EqualFunc(asked, got, func(a, b any) bool { return assert.ObjectsAreEqual(a, b) }), "%s", sent)
}

// A number that some readers cannot hold is refused.
func TestNumbersOfSchemas(t *testing.T) {
	for number, param := range map[string]string{"1e400": "x", "-1e999": "x", strings.Repeat("9", 400): "x",
		"1e300": "", "1e-400": "", strconv.FormatUint(1<<63, 10): ""} {
		for body, at := range map[string]string{
			asking(`"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","x":[` + number +
				`]}}}]`): "tools[0].function.parameters.x[0]",
			asking(`"response_format":{"type":"json_schema","json_schema":{"name":"f","schema":{"type":"object","x":[` +
				number + `]},"strict":true}}`): "response_format.json_schema.schema.x[0]",
		} {
			if param != "" {
				rejects(t, body, "invalid_value", at)
				continue
			}
			_, err := Decode([]byte(body), jsonbody.Reading{})
			assert.NoError(t, err, body)
		}
	}
}

// Codex 0.169 replaces an object with such a name by its value.
func TestReservedNames(t *testing.T) {
	for _, name := range []string{"$serde_json::private::RawValue", "$serde_json::private::Number",
		`\u0024serde_json::private::RawValue`} {
		schema := `{"type":"object","x":[0,{"` + name + `":"[["}]}`
		at := ".x[1]." + strings.Replace(name, `\u0024`, "$", 1)
		rejects(t, asking(`"tools":[{"type":"function","function":{"name":"f","parameters":`+schema+`}}]`),
			"invalid_schema", "tools[0].function.parameters"+at)
		rejects(t, asking(`"response_format":{"type":"json_schema","json_schema":{"name":"f","schema":`+schema+`}}`),
			"invalid_schema", "response_format.json_schema.schema"+at)
	}
}
