package jsonschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
)

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
			at := jsonbody.ClipPath(at + fault.path)
			return nil, openai.Invalid("invalid_schema", at,
				at+": codex keeps names that begin with "+reservedPrefix+" to itself; rename it")
		}
		return schema, nil
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syntax):
		return nil, jsonbody.DuplicateAt(at + "." + jsonbody.Path(syntax.JSONPointer))
	case errors.As(err, &wrong) && wrong.JSONKind == '0' && wrong.JSONPointer != "":
		at := jsonbody.ClipPath(at + "." + jsonbody.Path(wrong.JSONPointer))
		return nil, openai.Invalid("invalid_value", at, at+" must be a number that fits into 64 bits")
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
				return badSchema("").in("." + openai.Clip(name))
			}
			if fault := reserved(inner); fault != nil {
				return fault.in("." + openai.Clip(name))
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
	from := jsontext.NewDecoder(bytes.NewBuffer(raw), jsonbody.AllowDuplicates)
	for range maxSchemaTokens {
		if _, err := from.ReadToken(); err != nil {
			return nil // it ends
		}
	}
	return openai.Invalid("invalid_schema", at,
		fmt.Sprintf("%s: a schema must not have more than %d names, values and brackets", at, maxSchemaTokens))
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

// Compact is the JSON without space between its tokens.
func Compact(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}
