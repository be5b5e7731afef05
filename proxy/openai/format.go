package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
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

// jsonObject is JSON mode in words: codex has no other format than a schema, and a schema that the endpoint enforces
// must name every property.
var jsonObject = Format{
	Instruction: "Answer with one valid JSON object and nothing else: no words around it and no code fence."}

type rawFormat struct {
	Type       string `json:"type"`
	JSONSchema *struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Schema      json.RawMessage `json:"schema"`
		Strict      *bool           `json:"strict"`
	} `json:"json_schema"`

	Others map[string]valuePrefix `json:",embed"`
}

// isUnset reports whether the request has no format; an object without a type counts as none.
func (f *rawFormat) isUnset() bool {
	return f == nil || f.Type == "" && f.JSONSchema == nil && len(f.Others) == 0
}

func (f *rawFormat) format() (Format, error) {
	const at = "response_format"
	switch {
	case f.isUnset() || f.Type == "text":
		return Format{}, nil
	case f.Type == "json_object":
		return jsonObject, nil
	case f.Type != "json_schema":
		return Format{}, Invalid("invalid_value", at+".type", at+".type must be text, json_object or json_schema")
	case f.JSONSchema == nil:
		return Format{}, Invalid("schema_required", at+".json_schema", at+".json_schema is required")
	}
	s := f.JSONSchema
	return schemaFormat(at+".json_schema", s.Name, s.Description, s.Schema, s.Strict != nil && *s.Strict)
}

// schemaFormat is a JSON schema as format. Codex makes the endpoint enforce every
// schema isStrict, which refuses those outside its subset; unless the client
// insists, such a schema is put in words.
func schemaFormat(at, name, description string, schema json.RawMessage, strict bool) (Format, error) {
	if err := checkToolName(at+".name", name); err != nil {
		return Format{}, err
	}
	if len(name) > maxFormatName {
		return Format{}, Invalid("invalid_value", at+".name",
			fmt.Sprintf("%s.name must not be longer than %d characters", at, maxFormatName))
	}
	at += ".schema"
	if isUnset(schema) {
		return Format{}, Invalid("schema_required", at, at+" is required")
	}
	root, err := decodeSchema(at, schema)
	switch {
	case err != nil:
		return Format{}, err
	case root == nil:
		return Format{}, Invalid("invalid_schema", at, at+" must be a JSON schema, which is an object")
	case nesting(root) > maxSchemaDepth:
		return Format{}, tooDeep().at(at)
	case strict && root["type"] != "object":
		return Format{}, Invalid("invalid_schema", at+".type", at+`.type must be "object" for a strict schema`)
	case strict || root["type"] == "object" && isStrict(root):
		return Format{Schema: prependMember(prependMember(schema, root, "description", description), root, "title",
			name)}, nil
	}
	instruction := fmt.Sprintf(
		"Answer with one JSON value that is valid under this JSON schema (%s), and nothing else: "+
			"no words around it and no code fence.\n", name)
	if description != "" {
		instruction += description + "\n"
	}
	return Format{Instruction: instruction + string(compact(schema))}, nil
}

// prependMember adds a string to a schema: codex sends no name or description beside it. The order of the properties
// must stay, as the model writes them in that order.
func prependMember(schema json.RawMessage, root map[string]any, key, value string) json.RawMessage {
	if _, has := root[key]; has || value == "" {
		return schema
	}
	text, err := Encode(value)
	if err != nil {
		return schema // not possible with a string
	}
	_, rest, _ := bytes.Cut(schema, []byte("{"))
	return slices.Concat([]byte(`{"`+key+`":`), text, []byte(","), rest)
}

// strictKeywords are the keywords of the subset in OpenAI's guide "Structured outputs". Their values hold no schema
// (0), a schema (1), a list of schemas (2) or named schemas (3).
var strictKeywords = map[string]int{
	"type": 0, "description": 0, "title": 0, "enum": 0, "const": 0, "required": 0, "additionalProperties": 0, "$ref": 0,
	"$schema": 0,
	"pattern": 0, "format": 0, "minimum": 0, "maximum": 0, "exclusiveMinimum": 0, "exclusiveMaximum": 0,
	"multipleOf": 0,
	"minItems":   0, "maxItems": 0, "items": 1, "anyOf": 2, "properties": 3, "$defs": 3, "definitions": 3,
}

// isStrict reports whether a schema is in the strict subset: all properties of
// every object are required, and there are no others.
func isStrict(v any) bool {
	schema, ok := v.(map[string]any)
	if !ok {
		return false
	}
	properties, _ := schema["properties"].(map[string]any)
	if _, object := schema["properties"]; object || schema["type"] == "object" {
		if schema["additionalProperties"] != false || !requires(schema["required"], properties) {
			return false
		}
	}
	for key, inner := range schema {
		kind, known := strictKeywords[key]
		if !known || !isStrictInside(kind, inner) {
			return false
		}
	}
	return true
}

func isStrictInside(kind int, v any) bool {
	var inner []any
	switch kind {
	case 1:
		inner = []any{v}
	case 2:
		inner, _ = v.([]any)
	case 3:
		named, _ := v.(map[string]any)
		inner = slices.Collect(maps.Values(named))
	}
	return !slices.ContainsFunc(inner, func(v any) bool { return !isStrict(v) })
}

func requires(required any, properties map[string]any) bool {
	list, _ := required.([]any)
	names := make(map[string]bool, len(list))
	for _, name := range list {
		if text, ok := name.(string); ok {
			names[text] = true
		}
	}
	for name := range properties {
		if !names[name] {
			return false
		}
	}
	return true
}
