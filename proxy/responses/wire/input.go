package wire

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
)

// InputItem is one item of the input, or the reference to a stored item.
type InputItem struct {
	Item
	Reference string // id of a stored item
	At        string // its path, for errors: input[3]
}

// rawItem is an item in a request.
type rawItem struct {
	Type      string                         `json:"type"`
	ID        string                         `json:"id"`
	Role      string                         `json:"role"`
	Content   jsonbody.Content               `json:"content"`
	Summary   json.RawMessage                `json:"summary"`
	Encrypted string                         `json:"encrypted_content"`
	CallID    string                         `json:"call_id"`
	Namespace string                         `json:"namespace"`
	Name      string                         `json:"name"`
	Arguments Arguments                      `json:"arguments"`
	Input     string                         `json:"input"`
	Output    jsonbody.Content               `json:"output"`
	Tools     jsonbody.List[json.RawMessage] `json:"tools"`
	Reasoning json.RawMessage                `json:"reasoning"` // of a configuration_update; others may have any
	Text      json.RawMessage                `json:"text"`      // of a configuration_update
}

// rawInput is a string or a list of items.
type rawInput struct {
	name  string // of the parameter; empty: input
	set   bool
	text  *string
	items []rawItem
}

// UnmarshalJSONFrom accepts both forms.
func (in *rawInput) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	kind := from.PeekKind()
	in.set = kind != 'n'
	switch kind {
	case '"':
		return jsonv2.UnmarshalDecode(from, &in.text)
	case '[':
		return in.readItems(from)
	case 'n':
		return from.SkipValue()
	}
	if err := from.SkipValue(); err != nil {
		return err
	}
	return openai.Invalid("invalid_type", in.param(), in.param()+" must be text or a list of items")
}

func (in *rawInput) param() string { return cmp.Or(in.name, "input") }

// at is the path of an item.
func (in *rawInput) at(i int) string { return fmt.Sprintf("%s[%d]", in.param(), i) }

func (in *rawInput) readItems(from *jsontext.Decoder) error {
	if _, err := from.ReadToken(); err != nil {
		return err
	}
	for from.PeekKind() != ']' {
		if len(in.items) == jsonbody.MaxList {
			return openai.Invalid("invalid_value", in.param(),
				fmt.Sprintf("%s must not hold more than %d items", in.param(), jsonbody.MaxList))
		}
		in.items = append(slices.Grow(in.items, jsonbody.Growth(in.items)), rawItem{})
		at := len(in.items) - 1
		kind := from.PeekKind()
		err := jsonv2.UnmarshalDecode(from, &in.items[at])
		var wrongType *jsonv2.SemanticError
		if err == nil && kind != '{' || errors.As(err, &wrongType) {
			at := in.at(at)
			return openai.Invalid("invalid_type", at,
				at+" must be an item, with fields of the types that the reference has")
		}
		if err != nil {
			return err
		}
	}
	_, err := from.ReadToken()
	return err
}

func (raw rawResponse) applyInput(req *Request) error {
	var read items
	switch in := raw.Input; {
	case !in.set && raw.Previous == "" && raw.Conversation.ID == "":
		return openai.Invalid("input_required", "input", "input is required: text, or a list of items")
	case in.text != nil:
		part := ItemPart{Type: partText, Text: *in.text}
		read.append("input", Item{Type: ItemMessage, Status: StatusCompleted, Role: "user", Content: []ItemPart{part}})
	default:
		if err := read.addAll(&raw.Input); err != nil {
			return err
		}
	}
	req.Input, req.Compaction = read.list, read.compaction
	req.Ignored = append(req.Ignored, read.ignored...)
	req.Reasoning.Effort = cmp.Or(read.effort, req.Reasoning.Effort)
	if read.textFormat != nil {
		req.TextFormat, req.Format, req.hasFormat = read.textFormat, read.format, true
	}
	return nil
}
