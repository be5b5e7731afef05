package openai

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// InputItem is one item of the input, or the reference to a stored item.
type InputItem struct {
	Item
	Reference string // id of a stored item
	At        string // its path, for errors: input[3]
}

// rawItem is an item in a request.
type rawItem struct {
	Type      string                       `json:"type"`
	ID        string                       `json:"id"`
	Role      string                       `json:"role"`
	Content   content                      `json:"content"`
	Summary   json.RawMessage              `json:"summary"`
	Encrypted string                       `json:"encrypted_content"`
	CallID    string                       `json:"call_id"`
	Namespace string                       `json:"namespace"`
	Name      string                       `json:"name"`
	Arguments Arguments                    `json:"arguments"`
	Input     string                       `json:"input"`
	Output    content                      `json:"output"`
	Tools     boundedList[json.RawMessage] `json:"tools"`
	Reasoning json.RawMessage              `json:"reasoning"` // of a configuration_update; others may have any
	Text      json.RawMessage              `json:"text"`      // of a configuration_update
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
	return Invalid("invalid_type", in.param(), in.param()+" must be text or a list of items")
}

func (in *rawInput) param() string { return cmp.Or(in.name, "input") }

// at is the path of an item.
func (in *rawInput) at(i int) string { return fmt.Sprintf("%s[%d]", in.param(), i) }

func (in *rawInput) readItems(from *jsontext.Decoder) error {
	if _, err := from.ReadToken(); err != nil {
		return err
	}
	for from.PeekKind() != ']' {
		if len(in.items) == maxMessages {
			return Invalid("invalid_value", in.param(),
				fmt.Sprintf("%s must not hold more than %d items", in.param(), maxMessages))
		}
		in.items = append(slices.Grow(in.items, growth(in.items)), rawItem{})
		at := len(in.items) - 1
		kind := from.PeekKind()
		err := jsonv2.UnmarshalDecode(from, &in.items[at])
		var wrongType *jsonv2.SemanticError
		if err == nil && kind != '{' || errors.As(err, &wrongType) {
			at := in.at(at)
			return Invalid("invalid_type", at, at+" must be an item, with fields of the types that the reference has")
		}
		if err != nil {
			return err
		}
	}
	_, err := from.ReadToken()
	return err
}

func (raw rawResponse) applyInput(req *ResponseRequest) error {
	switch in := raw.Input; {
	case !in.set && raw.Previous == "" && raw.Conversation.ID == "":
		return Invalid("input_required", "input", "input is required: text, or a list of items")
	case in.text != nil:
		part := ItemPart{Type: partText, Text: *in.text}
		req.appendItem("input", Item{Type: itemMessage, Status: StatusCompleted, Role: "user",
			Content: []ItemPart{part}})
		return nil
	}
	return req.addItems(&raw.Input)
}

// addItems adds a list of items to the input.
func (req *ResponseRequest) addItems(in *rawInput) error {
	req.Input = make([]InputItem, 0, len(in.items))
	for i, item := range in.items {
		if err := req.addItem(item, in.at(i)); err != nil {
			return err
		}
		if req.Compaction != nil && i < len(in.items)-1 {
			return Invalid("invalid_value", in.at(i)+".type",
				in.at(i)+": a compaction_trigger must be the last item; send the items after it in the next request")
		}
	}
	images := req.Images()
	if slices.ContainsFunc(images, func(i PlacedImage) bool { return i.Image.Detail == "low" }) {
		req.Ignored = append(req.Ignored, "input_image.detail")
	}
	return nil
}

// Images are the images in the input.
func (req *ResponseRequest) Images() (list []PlacedImage) {
	latest := req.Latest()
	for i, in := range req.Input {
		for _, p := range in.Images(in.At) {
			p.New = i == latest
			list = append(list, p)
		}
	}
	return list
}

// Latest returns the index of the user's last message in the input, which the model answers; -1 if it has none.
func (req *ResponseRequest) Latest() int {
	for i, in := range slices.Backward(req.Input) {
		switch {
		case in.Type == itemMessage && in.Role == "user":
			return i
		case in.Type != itemMessage && in.Type != itemUpdate || in.Role == "assistant":
			return -1
		}
	}
	return -1
}

func (req *ResponseRequest) appendItem(at string, item Item) {
	req.Input = append(req.Input, InputItem{Item: item, At: at})
}

func (req *ResponseRequest) addItem(raw rawItem, at string) error {
	switch {
	case raw.Type == "" && raw.Role != "":
		raw.Type = itemMessage
	case raw.Type == "" && raw.ID != "": // as the helpers of the SDKs send it
		raw.Type = "item_reference"
	}
	switch raw.Type {
	case itemMessage:
		return req.addMessage(raw, at)
	case itemFunction, itemCustomCall, itemSearchCall:
		return req.addCall(raw, at)
	case "tool_search_output":
		req.appendItem(at, Item{Type: raw.Type, ID: raw.ID, Status: StatusCompleted, CallID: raw.CallID,
			Execution: executionClient, Tools: notNil(raw.Tools)})
		return requireFields(at, field{"call_id", raw.CallID})
	case "function_call_output", "custom_tool_call_output":
		return req.addOutput(raw, at)
	case itemReasoning:
		summary, err := readSummary(raw.Summary, at+".summary")
		if summary == nil {
			summary = boundedList[summaryPart]{}
		}
		req.appendItem(at, Item{Type: raw.Type, ID: raw.ID, Summary: summary, Encrypted: raw.Encrypted})
		return err
	case itemCompaction:
		return req.addCompaction(raw, at)
	case itemUpdate:
		return req.addUpdate(raw, at)
	case itemTrigger:
		req.Compaction = &Compacted{}
		return nil
	case "additional_tools":
		req.appendItem(at, Item{Type: raw.Type, ID: raw.ID, Role: cmp.Or(raw.Role, "developer"),
			Tools: notNil(raw.Tools)})
		return nil
	case "item_reference":
		if err := requireFields(at, field{"id", raw.ID}); err != nil {
			return err
		}
		req.Input = append(req.Input, InputItem{Reference: raw.ID, At: at})
		return nil
	case "web_search_call", "file_search_call", "code_interpreter_call", "mcp_list_tools", "mcp_call":
		// Records of hosted tools: the model has put their results in the message after them.
		name, _, _ := strings.Cut(at, "[")
		req.Ignored = append(req.Ignored, name+"."+raw.Type)
		return nil
	default:
		if why, known := refusedItems[raw.Type]; known {
			return unsupported(at+".type", fmt.Sprintf("%s: items of type %q are not supported: %s", at, raw.Type, why))
		}
		return unsupported(at+".type", fmt.Sprintf("%s: items of type %q are not supported", at, clip(raw.Type)))
	}
}

// refusedItems are the items of OpenAI's reference that are refused, as the conversation would have a gap without them.
var refusedItems = map[string]string{
	"computer_call": hostedTool, "computer_call_output": hostedTool, "image_generation_call": hostedTool,
	"local_shell_call": hostedTool, "local_shell_call_output": hostedTool, "shell_call": hostedTool,
	"shell_call_output": hostedTool, "apply_patch_call": hostedTool, "apply_patch_call_output": hostedTool,
	"mcp_approval_request": hostedTool, "mcp_approval_response": hostedTool,
	"program": hostedTool, "program_output": hostedTool,
}

const hostedTool = "its tool is one of OpenAI's, which are not served; offer a function of your own"

func (req *ResponseRequest) addCall(raw rawItem, at string) error {
	item := Item{
		Type: raw.Type, ID: raw.ID, Status: StatusCompleted, CallID: raw.CallID, Namespace: raw.Namespace,
		Name: raw.Name,
	}
	fields := []field{{"call_id", raw.CallID}, {"name", raw.Name}}
	switch raw.Type {
	case itemSearchCall:
		fields, item.Execution = fields[:1], executionClient
	case itemCustomCall:
		item.Input = &raw.Input
	}
	if item.Arguments = raw.Arguments; raw.Type != itemCustomCall && item.Arguments.Text == "" {
		item.Arguments.Text = "{}"
	}
	req.appendItem(at, item)
	return requireFields(at, fields...)
}

func notNil(tools []json.RawMessage) []json.RawMessage {
	if tools == nil {
		return []json.RawMessage{}
	}
	return tools
}

type field struct{ name, value string }

func requireFields(at string, fields ...field) error {
	for _, f := range fields {
		if f.value == "" {
			return Invalid("field_required", at+"."+f.name, at+"."+f.name+" is required")
		}
	}
	return nil
}

func (req *ResponseRequest) addMessage(raw rawItem, at string) error {
	switch raw.Role {
	case "system", "developer", "user", "assistant":
	case "":
		return Invalid("role_required", at+".role", at+".role is required")
	default:
		return Invalid("invalid_value", at+".role",
			fmt.Sprintf("%s.role must be system, developer, user or assistant, not %q", at, clip(raw.Role)))
	}
	parts, err := readParts(raw.Content, at+".content", textPart(raw.Role))
	if err != nil {
		return err
	}
	req.appendItem(at, Item{Type: itemMessage, ID: raw.ID, Status: StatusCompleted, Role: raw.Role, Content: parts})
	return nil
}

func textPart(role string) string {
	if role == "assistant" {
		return partOutput
	}
	return partText
}

func (req *ResponseRequest) addOutput(raw rawItem, at string) error {
	if err := requireFields(at, field{"call_id", raw.CallID}); err != nil {
		return err
	}
	if !raw.Output.set {
		return Invalid("field_required", at+".output", at+".output is required; it may be empty text")
	}
	item := Item{Type: raw.Type, ID: raw.ID, Status: StatusCompleted, CallID: raw.CallID, Output: &ItemOutput{}}
	if raw.Output.parts == nil {
		item.Output.Text = &raw.Output.text
		req.appendItem(at, item)
		return nil
	}
	var err error
	item.Output.Parts, err = readParts(raw.Output, at+".output", partText)
	req.appendItem(at, item)
	return err
}

// readParts reads text or a list of parts; kind is the type of its text parts.
func readParts(content content, at, kind string) ([]ItemPart, error) {
	switch {
	case !content.set:
		return nil, Invalid("content_required", at, at+" is required")
	case content.parts == nil:
		return []ItemPart{{Type: kind, Text: content.text}}, nil
	}
	var raw boundedList[rawItemPart]
	if unmarshal(content.parts, &raw) != nil {
		return nil, Invalid("invalid_type", at, at+" must be text or a list of parts")
	}
	if len(raw) > maxList {
		return nil, Invalid("invalid_value", at, fmt.Sprintf("%s must not hold more than %d parts", at, maxList))
	}
	parts := make([]ItemPart, 0, len(raw))
	for i, p := range raw {
		part, err := p.read(fmt.Sprintf("%s[%d]", at, i), kind)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// readSummary reads the summary of reasoning, part by part like readParts.
func readSummary(raw json.RawMessage, at string) (parts boundedList[summaryPart], err error) {
	if raw != nil && unmarshal(raw, &parts) != nil {
		return nil, Invalid("invalid_type", at, at+" must be a list of parts")
	}
	if len(parts) > maxList {
		return nil, Invalid("invalid_value", at, fmt.Sprintf("%s must not hold more than %d parts", at, maxList))
	}
	for i, part := range parts {
		if part.Type != partSummary {
			at := fmt.Sprintf("%s[%d].type", at, i)
			return nil, unsupported(at, fmt.Sprintf("%s must be %s; %q is not supported", at, partSummary,
				clip(part.Type)))
		}
	}
	return parts, nil
}

func (p rawItemPart) read(at, kind string) (ItemPart, error) {
	switch p.Type {
	case partText, partOutput:
		return ItemPart{Type: kind, Text: p.Text}, nil
	case "refusal":
		return ItemPart{Type: kind, Text: p.Refusal}, nil
	case partImage:
		if kind == partOutput {
			return ItemPart{}, Invalid("invalid_value", at+".type", at+": an assistant's message cannot hold images")
		}
		if p.ID != "" {
			return ItemPart{}, unsupported(at+".file_id", at+": files are not kept; send the image as image_url")
		}
		image, err := newImage(at, "image_url", p.ImageURL, imageDetail(p.Detail))
		return ItemPart{Type: p.Type, Image: &image}, err
	case "input_file":
		if kind == partOutput {
			return ItemPart{}, Invalid("invalid_value", at+".type", at+": an assistant's message cannot hold files")
		}
		text, err := p.text(at)
		return ItemPart{Type: kind, Text: text}, err
	default:
		return ItemPart{}, unsupported(at+".type",
			fmt.Sprintf("%s: parts of type %q are not supported; send input_text, input_image or input_file", at,
				clip(p.Type)))
	}
}
