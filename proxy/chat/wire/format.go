package wire

import (
	"encoding/json"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/jsonschema"
)

type rawFormat struct {
	Type       string `json:"type"`
	JSONSchema *struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Schema      json.RawMessage `json:"schema"`
		Strict      *bool           `json:"strict"`
	} `json:"json_schema"`

	Others map[string]jsonbody.ValuePrefix `json:",embed"`
}

// IsUnset reports whether the request has no format; an object without a type counts as none.
func (f *rawFormat) isUnset() bool {
	return f == nil || f.Type == "" && f.JSONSchema == nil && len(f.Others) == 0
}

func (f *rawFormat) format() (jsonschema.Format, error) {
	const at = "response_format"
	switch {
	case f.isUnset() || f.Type == "text":
		return jsonschema.Format{}, nil
	case f.Type == "json_object":
		return jsonschema.ObjectFormat, nil
	case f.Type != "json_schema":
		return jsonschema.Format{}, openai.Invalid("invalid_value", at+".type",
			at+".type must be text, json_object or json_schema")
	case f.JSONSchema == nil:
		return jsonschema.Format{}, openai.Invalid("schema_required", at+".json_schema", at+".json_schema is required")
	}
	s := f.JSONSchema
	return jsonschema.NewFormat(at+".json_schema", s.Name, s.Description, s.Schema, s.Strict != nil && *s.Strict)
}
