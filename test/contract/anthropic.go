package contract

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

//go:embed anthropic.json
var anthropic []byte

const anthropicLocation = "anthropic.json"

// The objects of Anthropic's API that codex-proxy serves and accepts.
const (
	Message         Kind = "message"
	MessageRequest  Kind = "request"
	TokenCount      Kind = "count"
	AnthropicModel  Kind = "anthropic.model"
	AnthropicModels Kind = "models"
	AnthropicError  Kind = "anthropic.error"
)

// anthropicKinds are the names of the objects in the document.
var anthropicKinds = map[Kind]string{Message: "message", MessageRequest: "request", TokenCount: "count",
	AnthropicModel: "model", AnthropicModels: "models", AnthropicError: "error"}

// compileAnthropic adds the schemas of Anthropic's API.
func (s *Schema) compileAnthropic(c *jsonschema.Compiler) (err error) {
	for kind, name := range anthropicKinds {
		if s.kinds[kind], err = c.Compile(anthropicLocation + "#/definitions/Wire/properties/" + name); err != nil {
			return fmt.Errorf("cannot compile the schema of %s: %w", kind, err)
		}
	}
	var doc struct {
		Definitions struct {
			ServedEvent struct{ AnyOf []json.RawMessage }
		}
	}
	if err := json.Unmarshal(anthropic, &doc); err != nil {
		return fmt.Errorf("cannot read the schemas: %w", err)
	}
	for i := range doc.Definitions.ServedEvent.AnyOf {
		schema, err := c.Compile(anthropicLocation + "#/definitions/ServedEvent/anyOf/" + strconv.Itoa(i))
		if err != nil {
			return fmt.Errorf("cannot compile the schema of an event: %w", err)
		}
		for schema.Ref != nil {
			schema = schema.Ref
		}
		name, ok := (*schema.Properties["type"].Const).(string)
		if !ok {
			return fmt.Errorf("cannot compile the schema of event %d: no type", i)
		}
		s.messageEvents[name] = schema
	}
	return nil
}

// CheckMessageEvent is the error of an event of a streamed message that does not match its schema.
func (s *Schema) CheckMessageEvent(name string, data []byte) error {
	if name == "error" {
		return s.Check(AnthropicError, data)
	}
	schema, ok := s.messageEvents[name]
	if !ok {
		return fmt.Errorf("there is no event %q", name)
	}
	return check(schema, name, data)
}
