package jsonschema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"codex-proxy/proxy/openai"
)

var schemaTypes = []string{"string", "number", "integer", "boolean", "object", "array", "null"}

// schemaWalk checks a schema recursively.
type schemaWalk struct {
	whole  bool
	counts bool // there is a number that codex reads as a count
}

func (w *schemaWalk) node(v any, depth int) *schemaFault {
	if depth > maxSchemaDepth {
		return tooDeep()
	}
	schema, ok := v.(map[string]any)
	if _, boolean := v.(bool); boolean {
		w.whole = false
		return nil
	} else if !ok {
		return badSchema("must be a JSON schema")
	}
	if !keepsType(schema) {
		w.whole = false
	}
	for _, key := range slices.Sorted(maps.Keys(schema)) {
		if schema[key] == nil {
			continue
		}
		if fault := w.keyword(key, schema[key], depth+1); fault != nil {
			return fault.in("." + openai.Clip(key))
		}
	}
	return nil
}

// keepsType reports whether codex keeps the type of the schema: without one codex assumes that an enum has strings, and
// drops the description of a schema that has nothing else.
func keepsType(schema map[string]any) bool {
	if _, ok := schema["type"]; ok {
		return true
	}
	if values, ok := schema["enum"].([]any); ok {
		return !slices.ContainsFunc(values, func(v any) bool { _, text := v.(string); return !text })
	}
	_, described := schema["description"]
	return !described || len(schema) > 1
}

func (w *schemaWalk) keyword(key string, v any, depth int) *schemaFault {
	switch key {
	case "$schema", "$id", "$comment", "title": // these do not constrain the value
		return checkDepth(v, depth)
	case "type":
		return checkType(v)
	case "description", "$ref":
		if _, ok := v.(string); !ok {
			return badSchema("must be a string")
		}
	case "enum":
		if _, ok := v.([]any); !ok {
			return badSchema("must be a list")
		}
		return checkDepth(v, depth)
	case "required":
		return checkStrings(v)
	case "minItems":
		w.counts = true
		if !isCount(v) {
			return badSchema("must be a whole number, without a point or an exponent")
		}
	case "properties", "$defs", "definitions":
		return w.named(v, depth)
	case "items":
		return w.node(v, depth)
	case "additionalProperties":
		if _, ok := v.(bool); !ok {
			return w.node(v, depth)
		}
	case "anyOf", "oneOf", "allOf":
		return w.list(v, depth)
	default:
		w.whole = false
		return checkDepth(v, depth)
	}
	return nil
}

// checkDepth refuses a value that is nested too deep, itself at that depth.
func checkDepth(v any, depth int) *schemaFault {
	if nesting(v) > maxSchemaDepth-depth {
		return tooDeep()
	}
	return nil
}

// isCount reports whether codex accepts v as a count: it refuses 1.0 and 1e1.
func isCount(v any) bool {
	switch n := v.(type) {
	case float64:
		return n >= 0 && n == float64(int64(n))
	case json.Number:
		return !strings.ContainsAny(n.String(), ".eE")
	default:
		return false
	}
}

func (w *schemaWalk) named(v any, depth int) *schemaFault {
	schemas, ok := v.(map[string]any)
	if !ok {
		return badSchema("must be an object of JSON schemas")
	}
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		if fault := w.node(schemas[name], depth+1); fault != nil {
			return fault.in("." + openai.Clip(name))
		}
	}
	return nil
}

func (w *schemaWalk) list(v any, depth int) *schemaFault {
	schemas, ok := v.([]any)
	if !ok {
		return badSchema("must be a list of JSON schemas")
	}
	for i, s := range schemas {
		if fault := w.node(s, depth+1); fault != nil {
			return fault.in(fmt.Sprintf("[%d]", i))
		}
	}
	return nil
}

func checkType(v any) *schemaFault {
	kinds, list := v.([]any)
	if !list {
		kinds = []any{v}
	}
	for _, kind := range kinds {
		if name, ok := kind.(string); !ok || !slices.Contains(schemaTypes, name) {
			return badSchema(fmt.Sprintf("must be of %v", schemaTypes))
		}
	}
	return nil
}

func checkStrings(v any) *schemaFault {
	list, ok := v.([]any)
	if !ok || slices.ContainsFunc(list, func(v any) bool { _, text := v.(string); return !text }) {
		return badSchema("must be a list of strings")
	}
	return nil
}
