package jsonschema

import (
	"bytes"
	"encoding/json"
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

// CheckParameters checks the schema of a function's parameters for the errors that codex refuses, as measured with
// 0.169, and reports whether codex passes the schema on whole: it silently drops unknown keywords. Codex also drops
// types that do not exist; they are refused here.
func CheckParameters(at string, raw json.RawMessage) (whole bool, err error) {
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
	w := schemaWalk{whole: len(Compact(raw)) <= maxWholeSchema}
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
