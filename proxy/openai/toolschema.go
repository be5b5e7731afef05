package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxSchemaDepth bounds the nesting of a schema's JSON. Measured: codex 0.169
	// does not answer a message that is nested deeper than 127 levels.
	maxSchemaDepth = 100
	// maxWholeSchema is the size in bytes up to which codex passes a tool's
	// schema on; it leaves the descriptions out of a longer one. Measured: 5000.
	maxWholeSchema = 5000
	// maxSchemaTokens bounds the names, values and brackets of a schema, which is a
	// hundred times as large decoded. OpenAI takes 5000 properties.
	maxSchemaTokens = 100_000
)

var schemaTypes = []string{"string", "number", "integer", "boolean", "object", "array", "null"}

// checkParameters checks the schema of a function's parameters for the errors that codex refuses, as measured with
// 0.169, and reports whether codex passes the schema on whole: it silently drops unknown keywords. Codex also drops
// types that do not exist; they are refused here.
func checkParameters(at string, raw json.RawMessage) (whole bool, err error) {
	schema, err := decodeSchema(at, raw)
	switch {
	case err != nil:
		return false, err
	case schema == nil:
		return false, badSchema("must be a JSON schema, which is an object").at(at)
	}
	if kind, ok := schema["type"]; ok && kind != "object" {
		return false, badSchema(`must be "object"`).at(at + ".type")
	}
	w := schemaWalk{whole: len(compact(raw)) <= maxWholeSchema}
	if fault := w.node(schema, 1); fault != nil {
		return false, fault.at(at)
	}
	if !w.counts {
		return w.whole, nil
	}
	if fault := w.node(literal(raw), 1); fault != nil {
		return false, fault.at(at)
	}
	return w.whole, nil
}

// literal is a valid schema with its numbers as they are written.
func literal(raw json.RawMessage) (schema map[string]any) {
	from := json.NewDecoder(bytes.NewReader(raw))
	from.UseNumber()
	_ = from.Decode(&schema)
	return schema
}

// decodeSchema returns nil if raw is no object. A schema is forwarded unchanged, so a schema that other readers could
// read differently is refused. Another version of this program may have checked a stored schema.
func decodeSchema(at string, raw json.RawMessage) (schema map[string]any, err error) {
	if err := checkLength(at, raw); err != nil {
		return nil, err
	}
	var wrong *jsonv2.SemanticError
	var syntax *jsontext.SyntacticError
	switch err := jsonv2.Unmarshal(raw, &schema); {
	case err == nil:
		if fault := reserved(schema); fault != nil {
			at := clipPath(at + fault.path)
			return nil, Invalid("invalid_schema", at,
				at+": codex keeps names that begin with "+reservedPrefix+" to itself; rename it")
		}
		return schema, nil
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syntax):
		return nil, duplicateAt(at + "." + path(syntax.JSONPointer))
	case errors.As(err, &wrong) && wrong.JSONKind == '0' && wrong.JSONPointer != "":
		at := clipPath(at + "." + path(wrong.JSONPointer))
		return nil, Invalid("invalid_value", at, at+" must be a number that fits into 64 bits")
	default:
		return nil, nil
	}
}

// reservedPrefix begins the names with which codex's JSON library marks unparsed JSON: codex 0.169 replaces an object
// with such a name by the JSON in its value, of any depth, and never answers if the value is no JSON. Source:
// serde_json, src/number.rs and src/raw.rs.
const reservedPrefix = "$serde_json::private::"

// reserved returns the place of such a name, nil without one.
func reserved(v any) *schemaFault {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			if strings.HasPrefix(name, reservedPrefix) {
				return badSchema("").in("." + clip(name))
			}
			if fault := reserved(inner); fault != nil {
				return fault.in("." + clip(name))
			}
		}
	case []any:
		for i, inner := range v {
			if fault := reserved(inner); fault != nil {
				return fault.in(fmt.Sprintf("[%d]", i))
			}
		}
	}
	return nil
}

// checkLength refuses a schema with too many tokens to be decoded. A token has at least one byte, so the tokens of most
// schemas need not be counted.
func checkLength(at string, raw json.RawMessage) error {
	if len(raw) <= maxSchemaTokens {
		return nil
	}
	from := jsontext.NewDecoder(bytes.NewBuffer(raw), allowDuplicates)
	for range maxSchemaTokens {
		if _, err := from.ReadToken(); err != nil {
			return nil // it ends
		}
	}
	return Invalid("invalid_schema", at,
		fmt.Sprintf("%s: a schema must not have more than %d names, values and brackets", at, maxSchemaTokens))
}

// schemaFault is an error somewhere in a schema. Its path grows as the functions return.
type schemaFault struct {
	path, rule string // without a rule the schema is too deep
}

func badSchema(rule string) *schemaFault { return &schemaFault{rule: rule} }

func tooDeep() *schemaFault { return &schemaFault{} }

// in adds a step in front of the path.
func (f *schemaFault) in(step string) *schemaFault {
	f.path = step + f.path
	return f
}

func (f *schemaFault) at(root string) *Error {
	path := clipPath(root + f.path)
	if f.rule == "" {
		return Invalid("invalid_schema", path,
			fmt.Sprintf("%s: schemas must not be nested deeper than %d levels", path, maxSchemaDepth))
	}
	return Invalid("invalid_function_parameters", path, path+" "+f.rule)
}

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
			return fault.in("." + clip(key))
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
			return fault.in("." + clip(name))
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

// nesting is the depth of v: 0 if it is neither an object nor a list.
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

// clipPath bounds the path of a deep place in a schema.
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
