package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func nested(levels int) string {
	return strings.Repeat(`{"type":"object","properties":{"a":`, levels) + `{"type":"string"}` +
		strings.Repeat("}}", levels)
}

// TestLiveToolSchemas of package appserver tests the same schemas with codex.
func TestParametersOfFunctions(t *testing.T) {
	property := func(schema string) string { return `{"type":"object","properties":{"a":` + schema + `}}` }
	for schema, whole := range map[string]bool{
		property(`{"type":"string","description":"d","enum":["x"]}`):         true,
		property(`{"type":["string","null"]}`):                               true,
		property(`{"type":"array","items":{"type":"integer"},"minItems":1}`): true,
		property(`{"anyOf":[{"type":"string"},{"type":"null"}]}`):            true,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"object"}},"required":["a"],` +
			`"additionalProperties":false}`: true,
		`{"$schema":"s","title":"t","type":"object","additionalProperties":{"type":"string"}}`: true,
		property(`{"type":"string","pattern":"x"}`):                                            false,
		property(`{"type":"string","default":"x"}`):                                            false,
		property(`{"const":3}`):                                                                false,
		property(`{"enum":[1,2]}`):                                                             false,
		property(`{"enum":["a"]}`):                                                             true,
		property(`{"description":"d"}`):                                                        false,
		property(`true`):                                                                       false,
		property(`{"type":"string","description":"` + strings.Repeat("d", maxWholeSchema) + `"}`): false,
		nested(40): true,
	} {
		got, err := checkParameters("p", json.RawMessage(schema))
		require.NoError(t, err, schema)
		assert.Equal(t, whole, got, schema)
	}
	for schema, param := range map[string]string{
		`3`:                                    "p",
		`[]`:                                   "p",
		`{"type":"string"}`:                    "p.type",
		`{"type":["object"]}`:                  "p.type",
		property(`3`):                          "p.properties.a",
		property(`null`):                       "p.properties.a",
		property(`{"type":"wizard"}`):          "p.properties.a.type",
		property(`{"type":[1]}`):               "p.properties.a.type",
		property(`{"description":1}`):          "p.properties.a.description",
		property(`{"enum":"x"}`):               "p.properties.a.enum",
		property(`{"$ref":1}`):                 "p.properties.a.$ref",
		property(`{"items":[]}`):               "p.properties.a.items",
		property(`{"minItems":-1}`):            "p.properties.a.minItems",
		property(`{"minItems":1.5}`):           "p.properties.a.minItems",
		property(`{"minItems":1.0}`):           "p.properties.a.minItems",
		property(`{"minItems":1e1}`):           "p.properties.a.minItems",
		property(`{"anyOf":{}}`):               "p.properties.a.anyOf",
		property(`{"oneOf":[1]}`):              "p.properties.a.oneOf[0]",
		property(`{"additionalProperties":1}`): "p.properties.a.additionalProperties",
		`{"type":"object","properties":[]}`:    "p.properties",
		`{"type":"object","required":"a"}`:     "p.required",
		`{"type":"object","required":[1]}`:     "p.required",
		`{"type":"object","$defs":{"A":"x"}}`:  "p.$defs.A",
	} {
		_, err := checkParameters("p", json.RawMessage(schema))
		var e *Error
		require.ErrorAs(t, err, &e, schema)
		assert.Equal(t, "invalid_function_parameters", e.Code)
		assert.Equal(t, param, e.Param)
	}
	for _, deep := range []string{nested(51),
		`{"type":"object","default":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`} {
		_, err := checkParameters("p", json.RawMessage(deep))
		var e *Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, "invalid_schema", e.Code)
		assert.Less(t, len(e.Param), 310)
		assert.Less(t, len(e.Message), 400)
	}
}

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

	assert.Equal(t, Format{}, decoded(t, asking(`"response_format":{"type":"text"}`)).Format)
	assert.Equal(t, jsonObject, decoded(t, asking(`"response_format":{"type":"json_object"}`)).Format)
	for _, how := range []string{"true", "false", "null"} {
		got := decoded(t, format(how, strict)).Format
		assert.Equal(t, described, string(compact(got.Schema)), "the order of the properties is unchanged")
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
		{"too deep", format("true", nested(51)), "invalid_schema", "response_format.json_schema.schema"},
		{"of the wrong type", asking(`"response_format":"json"`), "invalid_type", "response_format"},
	} {
		t.Run(tc.name, func(t *testing.T) { rejects(t, tc.body, tc.code, tc.param) })
	}
}
