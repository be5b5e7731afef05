package openai

import "encoding/json"

// The wire of another API reads its requests with these parts of this one: the same defences, and the same forms for
// codex.

// List is a list of which at most 10,001 elements are decoded, so that a check of its length can refuse it.
type List[T any] = boundedList[T]

// MaxList bounds every list of a request.
const MaxList = maxList

// ValuePrefix is the beginning of the value of a parameter that has no effect.
type ValuePrefix = valuePrefix

// IsSet reports whether the value is more than null, false or empty.
func (g valuePrefix) IsSet() bool { return !isEmptyValue(json.RawMessage(g)) }

// DecodeBody decodes a body, which must be an object without duplicate names. The error is an *Error.
func DecodeBody(body []byte, v any) error { return decodeBody(body, v) }

// Unmarshal is json.Unmarshal with case-sensitive names, for a part of a body that DecodeBody has read.
func Unmarshal(data []byte, v any) error { return unmarshal(data, v) }

// Clip bounds the text of a client that an error repeats.
func Clip(s string) string { return clip(s) }

// MaxModelName bounds the length of a model's name.
const MaxModelName = maxModelName

// NewImage checks the image of a request, a data: URL or an http(s) URL. at is the path of the object with the member
// field, which names it.
func NewImage(at, field, url string) (*Image, error) {
	image, err := newImage(at, field, url, "")
	return &image, err
}

// NewClientTool is a function of a client. at is the path of the tool, schemaAt the path of its parameters' schema.
func NewClientTool(at, schemaAt, name, description string, schema json.RawMessage) (ClientTool, error) {
	if err := checkToolName(at+".name", name); err != nil {
		return ClientTool{}, err
	}
	wire, err := newTool(schemaAt, WireName("", name), description, schema)
	return ClientTool{Name: name, Wire: wire, at: at}, err
}

// CheckToolName refuses a name that no tool has.
func CheckToolName(at, name string) error { return checkToolName(at, name) }

// Choice is which of the tools the model may call.
type Choice struct {
	Must   bool     // the model must call a tool
	Names  []string // of the tools that it may call; nil: all
	Single bool     // the client accepts one call in an answer
}

// ChooseTools returns the tools that the model may call, and the instructions for the model that stand for settings
// which codex does not have. at is the path of the choice.
func ChooseTools(at string, tools []ClientTool,
	choice Choice) (offered []ClientTool, instructions []string, err error) {
	if err := checkTools("tools", tools); err != nil {
		return nil, nil, err
	}
	c := toolChoice{must: choice.Must}
	if choice.Names != nil {
		c.names = []toolName{}
	}
	for _, name := range choice.Names {
		c.names = append(c.names, toolName{name: name})
	}
	if offered, err = c.apply(at, tools); err != nil {
		return nil, nil, err
	}
	set := toolset{tools: offered, choice: c, single: choice.Single}
	return offered, set.instructions(), nil
}

// SchemaFormat is a JSON schema as the format of an answer: enforced as far as the model endpoint can, and else in
// words. at is the path of the object with the member schema.
func SchemaFormat(at, name string, schema json.RawMessage) (Format, error) {
	return schemaFormat(at, name, "", schema, false)
}

// DecodeError explains the error of a decoder of a part of a body. Its path begins at that part.
func DecodeError(err error) error { return decodeError(err) }
