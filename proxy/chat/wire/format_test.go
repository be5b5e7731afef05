package wire

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/proxy/openai/jsonschema"
	"codex-proxy/proxy/openai/openaitest"
)

func TestResponseFormat(t *testing.T) {
	format := func(strict, schema string) string {
		return asking(
			`"response_format":{"type":"json_schema","json_schema":{"name":"n","description":"say \"it\"","strict":` +
				strict + `,"schema":` + schema + `}}`)
	}
	const strict = `{ "type":"object","properties":{"z":{"type":"array","items":{"type":"object","properties":{},` +
		`"required":[],"additionalProperties":false}},"a":{"anyOf":[{"type":"string"},{"type":"null"}]}},` +
		`"required":["z","a"],"additionalProperties":false}`
	described := `{"title":"n","description":"say \"it\"","type"` + strict[len(`{ "type"`):]
	const loose = `{"type":"object","properties":{"a":{"type":"string"}}}`

	assert.Equal(t, jsonschema.Format{}, decoded(t, asking(`"response_format":{"type":"text"}`)).Format)
	assert.Equal(t, jsonschema.ObjectFormat, decoded(t, asking(`"response_format":{"type":"json_object"}`)).Format)
	for _, how := range []string{"true", "false", "null"} {
		got := decoded(t, format(how, strict)).Format
		assert.Equal(t, described, string(jsonschema.Compact(got.Schema)), "the order of the properties is unchanged")
		assert.Empty(t, got.Instruction)
	}
	got := decoded(t, format("true", loose)).Format
	assert.Contains(t, string(got.Schema), `"properties":{"a"`, "strict is set")
	got = decoded(t, format("false", loose)).Format
	assert.Contains(t, string(got.Schema), `"required":["a"]`, "it is made strict")
	assert.Empty(t, got.Instruction)
	got = decoded(t, format("false", `{"type":"object","properties":{"a":{"type":"string","minLength":2}}}`)).Format
	assert.Contains(t, string(got.Schema), `"required":["a"]`)
	assert.Contains(t, got.Instruction, `"minLength":2`, "what the endpoint does not enforce is put in words")
	for _, schema := range []string{
		`{"type":"array","items":{"type":"string"}}`,
		`{"type":"object","properties":{"a":{"type":"object"}},"required":["a"],"additionalProperties":false}`,
		`{"type":"object","properties":{"a":true},"required":["a"],"additionalProperties":false}`,
		`{"type":"object","properties":{"a":{"oneOf":[]}},"required":["a"],"additionalProperties":false}`,
	} {
		got := decoded(t, format("false", schema)).Format
		assert.Nil(t, got.Schema, schema)
		assert.Contains(t, got.Instruction, schema)
		assert.Contains(t, got.Instruction, `say "it"`)
	}
	for _, tc := range []struct{ name, body, code, param string }{
		{"type", asking(`"response_format":{"type":"yaml"}`), "invalid_value", "response_format.type"},
		{"nothing", asking(`"response_format":{"type":"json_schema"}`), "schema_required",
			"response_format.json_schema"},
		{"no schema", asking(`"response_format":{"type":"json_schema","json_schema":{"name":"n"}}`), "schema_required",
			"response_format.json_schema.schema"},
		{"no name", asking(`"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"object"}}}`),
			"name_required", "response_format.json_schema.name"},
		{"name",
			asking(
				`"response_format":{"type":"json_schema","json_schema":{"name":"a b","schema":{"type":"object"}}}`),
			"invalid_value", "response_format.json_schema.name"},
		{"not a schema", format("true", `"x"`), "invalid_schema", "response_format.json_schema.schema"},
		{"not an object", format("true", `{"type":"array"}`), "invalid_schema",
			"response_format.json_schema.schema.type"},
		{"too deep", format("true", openaitest.Nested(51)), "invalid_schema", "response_format.json_schema.schema"},
		{"of the wrong type", asking(`"response_format":"json"`), "invalid_type", "response_format"},
	} {
		t.Run(tc.name, func(t *testing.T) { rejects(t, tc.body, tc.code, tc.param) })
	}
}
