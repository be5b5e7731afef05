package jsonschema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
)

// maxFormatName is the length of a schema's name in the OpenAI reference.
const maxFormatName = 64

// Format is the requested form of an answer. The zero Format is text.
type Format struct {
	// Schema, if any, is a JSON schema that the model endpoint enforces.
	Schema json.RawMessage
	// Instruction, if any, asks the model in words for a form that cannot be enforced.
	Instruction string
}

// ObjectFormat is JSON mode in words: codex has no other format than a schema, and a schema that the endpoint enforces
// must name every property.
var ObjectFormat = Format{
	Instruction: "Answer with one valid JSON object and nothing else: no words around it and no code fence."}

// NewFormat is a JSON schema as format. Codex has the endpoint enforce every schema as strict. Unless the client
// wants strict, the endpoint enforces the schema's strict form, and constraints outside the subset are also put in
// words; a schema without such a form is put in words alone.
func NewFormat(at, name, description string, schema json.RawMessage, strict bool) (Format, error) {
	if err := jsonbody.CheckName(at+".name", name); err != nil {
		return Format{}, err
	}
	if len(name) > maxFormatName {
		return Format{}, openai.Invalid("invalid_value", at+".name",
			fmt.Sprintf("%s.name must not be longer than %d characters", at, maxFormatName))
	}
	at += ".schema"
	if jsonbody.IsUnset(schema) {
		return Format{}, openai.Invalid("schema_required", at, at+" is required")
	}
	root, err := decodeSchema(at, schema)
	switch {
	case err != nil:
		return Format{}, err
	case root == nil:
		return Format{}, openai.Invalid("invalid_schema", at, at+" must be a JSON schema, which is an object")
	case nesting(root) > maxSchemaDepth:
		return Format{}, tooDeep().at(at)
	case strict && root["type"] != "object":
		return Format{}, openai.Invalid("invalid_schema", at+".type", at+`.type must be "object" for a strict schema`)
	}
	form, exact, enforced := schema, true, strict
	if !strict {
		form, exact, enforced = strictForm(schema)
		root = nil
		// The form has the members of a definition, if the schema only refers to one, and copies of definitions.
		_ = jsonbody.Unmarshal(form, &root)
		enforced = enforced && nesting(root) <= maxSchemaDepth
	}
	var f Format
	if enforced {
		f.Schema = prependMember(prependMember(form, root, "description", description), root, "title", name)
	}
	if !enforced || !exact {
		f.Instruction = schemaInWords(name, description, schema)
	}
	return f, nil
}

func schemaInWords(name, description string, schema json.RawMessage) string {
	instruction := fmt.Sprintf(
		"Answer with one JSON value that is valid under this JSON schema (%s), and nothing else: "+
			"no words around it and no code fence.\n", name)
	if description != "" {
		instruction += description + "\n"
	}
	return instruction + string(Compact(schema))
}

// prependMember adds a string to a schema: codex sends no name or description with it. The order of the properties must
// stay, as the model writes them in that order.
func prependMember(schema json.RawMessage, root map[string]any, key, value string) json.RawMessage {
	if _, has := root[key]; has || value == "" {
		return schema
	}
	text, err := openai.Encode(value)
	if err != nil {
		return schema // not possible with a string
	}
	_, rest, _ := bytes.Cut(schema, []byte("{"))
	return slices.Concat([]byte(`{"`+key+`":`), text, []byte(","), rest)
}
