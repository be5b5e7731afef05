package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	// maxSchemaDepth bounds the nesting of a schema's JSON. Measured: codex 0.169
	// does not answer a message that is nested deeper than 127 levels.
	maxSchemaDepth = 100
	// maxWholeSchema is the size in bytes up to which codex passes a tool's
	// schema on; it leaves the descriptions out of a longer one. Measured: 5000.
	maxWholeSchema = 5000
)

var schemaTypes = []string{"string", "number", "integer", "boolean", "object", "array", "null"}

// checkParameters checks the schema of a function's parameters for what codex
// refuses, as measured with 0.169, and reports whether codex passes it on whole:
// what it does not know it drops without a word. Types that do not exist it
// drops, too; they are refused here.
func checkParameters(at string, raw json.RawMessage) (whole bool, err error) {
	var schema map[string]any
	if json.Unmarshal(raw, &schema) != nil {
		return false, badSchema(at, "must be a JSON schema, which is an object")
	}
	if kind, ok := schema["type"]; ok && kind != "object" {
		return false, badSchema(at+".type", `must be "object"`)
	}
	w := schemaWalk{whole: len(compact(raw)) <= maxWholeSchema}
	return w.whole, w.node(at, schema, 1)
}

// schemaWalk goes through a schema.
type schemaWalk struct{ whole bool }

func (w *schemaWalk) node(at string, v any, depth int) error {
	if depth > maxSchemaDepth {
		return tooDeep(at)
	}
	schema, ok := v.(map[string]any)
	if _, boolean := v.(bool); boolean {
		w.whole = false
		return nil
	} else if !ok {
		return badSchema(at, "must be a JSON schema")
	}
	if !typed(schema) {
		w.whole = false
	}
	for _, key := range slices.Sorted(maps.Keys(schema)) {
		if schema[key] == nil {
			continue
		}
		if err := w.keyword(at+"."+clip(key), key, schema[key], depth+1); err != nil {
			return err
		}
	}
	return nil
}

// typed reports whether codex leaves the schema its type: without one it takes
// enum to be of strings, and it drops the description of a schema that says
// nothing else.
func typed(schema map[string]any) bool {
	if _, ok := schema["type"]; ok {
		return true
	}
	if values, ok := schema["enum"].([]any); ok {
		return !slices.ContainsFunc(values, func(v any) bool { _, text := v.(string); return !text })
	}
	_, described := schema["description"]
	return !described || len(schema) > 1
}

func (w *schemaWalk) keyword(at, key string, v any, depth int) error {
	switch key {
	case "$schema", "$id", "$comment", "title": // says nothing of the value
		return nil
	case "type":
		return checkType(at, v)
	case "description", "$ref":
		if _, ok := v.(string); !ok {
			return badSchema(at, "must be a string")
		}
	case "enum":
		if _, ok := v.([]any); !ok {
			return badSchema(at, "must be a list")
		}
	case "required":
		return checkStrings(at, v)
	case "minItems":
		if n, ok := v.(float64); !ok || n < 0 || n != float64(int64(n)) {
			return badSchema(at, "must be a whole number")
		}
	case "properties", "$defs", "definitions":
		return w.named(at, v, depth)
	case "items":
		return w.node(at, v, depth)
	case "additionalProperties":
		if _, ok := v.(bool); !ok {
			return w.node(at, v, depth)
		}
	case "anyOf", "oneOf", "allOf":
		return w.list(at, v, depth)
	default:
		w.whole = false
		if nesting(v) > maxSchemaDepth-depth {
			return tooDeep(at)
		}
	}
	return nil
}

func (w *schemaWalk) named(at string, v any, depth int) error {
	schemas, ok := v.(map[string]any)
	if !ok {
		return badSchema(at, "must be an object of JSON schemas")
	}
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		if err := w.node(at+"."+clip(name), schemas[name], depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (w *schemaWalk) list(at string, v any, depth int) error {
	schemas, ok := v.([]any)
	if !ok {
		return badSchema(at, "must be a list of JSON schemas")
	}
	for i, s := range schemas {
		if err := w.node(fmt.Sprintf("%s[%d]", at, i), s, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func checkType(at string, v any) error {
	kinds, list := v.([]any)
	if !list {
		kinds = []any{v}
	}
	for _, kind := range kinds {
		if name, ok := kind.(string); !ok || !slices.Contains(schemaTypes, name) {
			return badSchema(at, fmt.Sprintf("must be of %v", schemaTypes))
		}
	}
	return nil
}

func checkStrings(at string, v any) error {
	list, ok := v.([]any)
	if !ok || slices.ContainsFunc(list, func(v any) bool { _, text := v.(string); return !text }) {
		return badSchema(at, "must be a list of strings")
	}
	return nil
}

// nesting is how deep v is: 0 for what is neither object nor list.
func nesting(v any) int {
	deepest := -1
	switch v := v.(type) {
	case map[string]any:
		for _, inner := range v {
			deepest = max(deepest, nesting(inner))
		}
	case []any:
		for _, inner := range v {
			deepest = max(deepest, nesting(inner))
		}
	default:
		return 0
	}
	return max(deepest, 0) + 1
}

func badSchema(at, rule string) *Error {
	at = clipPath(at)
	return Invalid("invalid_function_parameters", at, at+" "+rule)
}

func tooDeep(at string) *Error {
	at = clipPath(at)
	return Invalid("invalid_schema", at, fmt.Sprintf("%s: schemas must not be nested deeper than %d levels", at, maxSchemaDepth))
}

// clipPath bounds the path of what is deep inside a schema.
func clipPath(at string) string {
	const most = 300
	if len(at) <= most {
		return at
	}
	return strings.ToValidUTF8(at[:most], "") + "…"
}

func compact(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}
