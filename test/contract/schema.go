package contract

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

//go:embed openai.json
var openai []byte

const location = "openai.json"

// Kind is an object of the API.
type Kind string

// The objects that codex-proxy serves.
const (
	Completion Kind = "completion" // a whole chat completion
	Chunk      Kind = "chunk"      // of a streamed one
	Text       Kind = "text"       // a whole completion of a prompt
	TextChunk  Kind = "textchunk"  // of a streamed one
	Response   Kind = "response"
	// InputTokens is the count of a response's input, Compaction a compacted conversation.
	InputTokens Kind = "inputTokens"
	Compaction  Kind = "compaction"
	Model       Kind = "model"
	Error       Kind = "error" // {"error":{…}}

	Conversation        Kind = "conversation"
	ConversationDeleted Kind = "conversationdeleted"
	ConversationItem    Kind = "conversationitem"
	ConversationItems   Kind = "conversationitems" // a list
)

// Schema holds the compiled schemas. It may be used from any goroutine.
type Schema struct {
	kinds  map[Kind]*jsonschema.Schema
	events map[string]*jsonschema.Schema // of a streamed response, by type

	messageEvents map[string]*jsonschema.Schema // of a streamed message, by type
}

// Compile reads the schemas, once for a program: that takes 0.1 s of a processor.
var Compile = sync.OnceValues(compile)

func compile() (*Schema, error) {
	c := jsonschema.NewCompiler()
	for at, data := range map[string][]byte{location: openai, anthropicLocation: anthropic} {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err == nil {
			err = c.AddResource(at, doc)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read the schemas: %w", err)
		}
	}
	s := &Schema{kinds: map[Kind]*jsonschema.Schema{}, events: map[string]*jsonschema.Schema{},
		messageEvents: map[string]*jsonschema.Schema{}}
	var err error
	for _, kind := range []Kind{Completion, Chunk, Text, TextChunk, Response, InputTokens, Compaction, Model, Error, Conversation,
		ConversationDeleted, ConversationItem, ConversationItems} {
		if s.kinds[kind], err = c.Compile(location + "#/definitions/Wire/properties/" + string(kind)); err != nil {
			return nil, fmt.Errorf("cannot compile the schema of %s: %w", kind, err)
		}
	}
	if err := s.compileEvents(c); err != nil {
		return nil, err
	}
	return s, s.compileAnthropic(c)
}

// compileEvents splits the union of all events: the error of one schema names the
// fault of an event, the error of a union only that no member matches.
func (s *Schema) compileEvents(c *jsonschema.Compiler) error {
	var doc struct {
		Definitions struct {
			ServedEvent struct {
				AnyOf []struct {
					Ref string `json:"$ref"`
				}
			}
		}
	}
	if err := json.Unmarshal(openai, &doc); err != nil {
		return fmt.Errorf("cannot read the schemas: %w", err)
	}
	for _, event := range doc.Definitions.ServedEvent.AnyOf {
		schema, err := c.Compile(location + event.Ref)
		if err != nil {
			return fmt.Errorf("cannot compile the schema of %s: %w", event.Ref, err)
		}
		name, ok := (*schema.Properties["type"].Const).(string)
		if !ok {
			return fmt.Errorf("cannot compile the schema of %s: no type", event.Ref)
		}
		s.events[name] = schema
	}
	return nil
}

// Check is the error of an object that does not match its schema.
func (s *Schema) Check(kind Kind, data []byte) error {
	return check(s.kinds[kind], string(kind), data)
}

// CheckEvent is the error of an event of a streamed response that does not match its schema.
func (s *Schema) CheckEvent(name string, data []byte) error {
	schema, ok := s.events[name]
	if !ok {
		return fmt.Errorf("there is no event %q", name)
	}
	return check(schema, name, data)
}

func check(schema *jsonschema.Schema, name string, data []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("bad JSON in a %s: %w: %s", name, err, excerpt(data))
	}
	if err := schema.Validate(value); err != nil {
		return fmt.Errorf("bad %s: %w: %s", name, err, excerpt(data))
	}
	return nil
}

// excerpt keeps reports of huge answers readable.
func excerpt(data []byte) []byte { return data[:min(len(data), 2000)] }
