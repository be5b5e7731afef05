package wire

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/jsonschema"
	"codex-proxy/proxy/openai/media"
)

// items are the items of a request, with the settings that they have.
type items struct {
	list       []InputItem
	ignored    []string        // items and fields without effect
	compaction *Compacted      // Request.Compaction
	effort     string          // of the last update that has one
	textFormat json.RawMessage // of the last update that has one; nil: none has
	format     jsonschema.Format
}

// addAll adds a list of items.
func (s *items) addAll(in *rawInput) error {
	s.list = make([]InputItem, 0, len(in.items))
	for i, item := range in.items {
		if err := s.add(item, in.at(i)); err != nil {
			return err
		}
		if s.compaction != nil && i < len(in.items)-1 {
			return openai.Invalid("invalid_value", in.at(i)+".type",
				in.at(i)+": a compaction_trigger must be the last item; send the items after it in the next request")
		}
	}
	if slices.ContainsFunc(s.list, InputItem.hasLowImage) {
		s.ignored = append(s.ignored, "input_image.detail")
	}
	return nil
}

func (in InputItem) hasLowImage() bool {
	return slices.ContainsFunc(in.Images(in.At), func(i media.PlacedImage) bool { return i.Image.Detail == "low" })
}

func (s *items) append(at string, item Item) {
	s.list = append(s.list, InputItem{Item: item, At: at})
}

func (s *items) add(raw rawItem, at string) error {
	switch {
	case raw.Type == "" && raw.Role != "":
		raw.Type = ItemMessage
	case raw.Type == "" && raw.ID != "": // as the helpers of the SDKs send it
		raw.Type = "item_reference"
	}
	switch raw.Type {
	case ItemMessage:
		return s.addMessage(raw, at)
	case ItemFunction, ItemCustomCall, ItemSearchCall:
		return s.addCall(raw, at)
	case "tool_search_output":
		s.append(at, Item{Type: raw.Type, ID: raw.ID, Status: StatusCompleted, CallID: raw.CallID,
			Execution: executionClient, Tools: notNil(raw.Tools)})
		return requireFields(at, field{"call_id", raw.CallID})
	case "function_call_output", "custom_tool_call_output":
		return s.addOutput(raw, at)
	case ItemReasoning:
		summary, err := readSummary(raw.Summary, at+".summary")
		if summary == nil {
			summary = jsonbody.List[SummaryPart]{}
		}
		s.append(at, Item{Type: raw.Type, ID: raw.ID, Summary: summary, Encrypted: raw.Encrypted})
		return err
	case ItemCompaction:
		return s.addCompaction(raw, at)
	case ItemUpdate:
		return s.addUpdate(raw, at)
	case itemTrigger:
		s.compaction = &Compacted{}
		return nil
	case "additional_tools":
		s.append(at, Item{Type: raw.Type, ID: raw.ID, Role: cmp.Or(raw.Role, "developer"),
			Tools: notNil(raw.Tools)})
		return nil
	case "item_reference":
		if err := requireFields(at, field{"id", raw.ID}); err != nil {
			return err
		}
		s.list = append(s.list, InputItem{Reference: raw.ID, At: at})
		return nil
	case "web_search_call", "file_search_call", "code_interpreter_call", "mcp_list_tools", "mcp_call":
		// Records of hosted tools: the model has put their results in the message after them.
		name, _, _ := strings.Cut(at, "[")
		s.ignored = append(s.ignored, name+"."+raw.Type)
		return nil
	default:
		if why, known := refusedItems[raw.Type]; known {
			return openai.Unsupported(at+".type", fmt.Sprintf("%s: items of type %q are not supported: %s", at,
				raw.Type, why))
		}
		return openai.Unsupported(at+".type", fmt.Sprintf("%s: items of type %q are not supported", at,
			openai.Clip(raw.Type)))
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

func (s *items) addCall(raw rawItem, at string) error {
	item := Item{
		Type: raw.Type, ID: raw.ID, Status: StatusCompleted, CallID: raw.CallID, Namespace: raw.Namespace,
		Name: raw.Name,
	}
	fields := []field{{"call_id", raw.CallID}, {"name", raw.Name}}
	switch raw.Type {
	case ItemSearchCall:
		fields, item.Execution = fields[:1], executionClient
	case ItemCustomCall:
		item.Input = &raw.Input
	}
	if item.Arguments = raw.Arguments; raw.Type != ItemCustomCall && item.Arguments.Text == "" {
		item.Arguments.Text = "{}"
	}
	s.append(at, item)
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
			return openai.Invalid("field_required", at+"."+f.name, at+"."+f.name+" is required")
		}
	}
	return nil
}

func (s *items) addMessage(raw rawItem, at string) error {
	switch raw.Role {
	case "system", "developer", "user", "assistant":
	case "":
		return openai.Invalid("role_required", at+".role", at+".role is required")
	default:
		return openai.Invalid("invalid_value", at+".role",
			fmt.Sprintf("%s.role must be system, developer, user or assistant, not %q", at, openai.Clip(raw.Role)))
	}
	parts, err := readParts(raw.Content, at+".content", textPart(raw.Role))
	if err != nil {
		return err
	}
	s.append(at, Item{Type: ItemMessage, ID: raw.ID, Status: StatusCompleted, Role: raw.Role, Content: parts})
	return nil
}

func (s *items) addOutput(raw rawItem, at string) error {
	if err := requireFields(at, field{"call_id", raw.CallID}); err != nil {
		return err
	}
	if !raw.Output.Set {
		return openai.Invalid("field_required", at+".output", at+".output is required; it may be empty text")
	}
	item := Item{Type: raw.Type, ID: raw.ID, Status: StatusCompleted, CallID: raw.CallID, Output: &ItemOutput{}}
	if raw.Output.Parts == nil {
		item.Output.Text = &raw.Output.Text
		s.append(at, item)
		return nil
	}
	var err error
	item.Output.Parts, err = readParts(raw.Output, at+".output", partText)
	s.append(at, item)
	return err
}
