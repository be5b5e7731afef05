package wire

import (
	"encoding/json"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/jsonschema"
)

type rawText struct {
	Format    json.RawMessage `json:"format"`
	Verbosity string          `json:"verbosity"`
}

// rawTextFormat is text.format in a request.
type rawTextFormat struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	Strict      *bool           `json:"strict"`
}

func (raw rawResponse) applyText(req *Request) (err error) {
	req.TextFormat = json.RawMessage(`{"type":"text"}`)
	if jsonbody.IsUnset(raw.Text.Format) {
		return nil
	}
	req.TextFormat, req.hasFormat = raw.Text.Format, true
	req.Format, err = readFormat(raw.Text.Format, "text.format")
	return err
}

// readFormat reads the format at that path.
func readFormat(format json.RawMessage, at string) (read jsonschema.Format, err error) {
	var f rawTextFormat
	if jsonbody.Unmarshal(format, &f) != nil {
		return read, openai.Invalid("invalid_type", at, at+" must be an object")
	}
	switch f.Type {
	case "text":
		return read, nil
	case "json_object":
		return jsonschema.ObjectFormat, nil
	case "json_schema":
		return jsonschema.NewFormat(at, f.Name, f.Description, f.Schema, f.Strict != nil && *f.Strict)
	default:
		return read, openai.Invalid("invalid_value", at+".type", at+".type must be text, json_object or json_schema")
	}
}
