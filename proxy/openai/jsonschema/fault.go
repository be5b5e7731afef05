package jsonschema

import (
	"fmt"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
)

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

func (f *schemaFault) at(root string) *openai.Error {
	path := jsonbody.ClipPath(root + f.path)
	if f.rule == "" {
		return openai.Invalid("invalid_schema", path,
			fmt.Sprintf("%s: schemas must not be nested deeper than %d levels", path, maxSchemaDepth))
	}
	return openai.Invalid("invalid_function_parameters", path, path+" "+f.rule)
}
