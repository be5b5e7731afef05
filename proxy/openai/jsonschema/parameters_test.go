package jsonschema

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/openaitest"
)

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
		openaitest.Nested(40): true,
	} {
		got, err := CheckParameters("p", json.RawMessage(schema))
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
		_, err := CheckParameters("p", json.RawMessage(schema))
		var e *openai.Error
		require.ErrorAs(t, err, &e, schema)
		assert.Equal(t, "invalid_function_parameters", e.Code)
		assert.Equal(t, param, e.Param)
	}
	for _, deep := range []string{openaitest.Nested(51),
		`{"type":"object","default":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`} {
		_, err := CheckParameters("p", json.RawMessage(deep))
		var e *openai.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, "invalid_schema", e.Code)
		assert.Less(t, len(e.Param), 310)
		assert.Less(t, len(e.Message), 400)
	}
}
