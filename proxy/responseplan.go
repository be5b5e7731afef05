package proxy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"codex-proxy/proxy/appserver"
	"codex-proxy/proxy/openai"
)

// planResponse maps a request for a response, with the whole conversation that
// it is about, onto a turn. from is where the reasoning in it comes from, images
// what codex needs to decode those in it.
func planResponse(req *openai.ResponseRequest, conversation []said) (
	turn appserver.TurnRequest, from *origins, images int64, err error,
) {
	items, err := readItems(req, conversation)
	if err != nil {
		return turn, nil, 0, err
	}
	if images, err = decoding(imagesOf(req, items), 1); err != nil {
		return turn, nil, 0, err
	}
	instructions := ""
	if req.Instructions != nil {
		instructions = *req.Instructions
	}
	turn = appserver.TurnRequest{
		Model: req.Model, BaseInstructions: &instructions, Effort: req.Reasoning.Effort, Summary: cmp.Or(req.Reasoning.Summary, "none"),
		OutputSchema: req.Format.Schema, ServiceTier: req.ServiceTier, Verbosity: req.Verbosity,
	}
	for _, tool := range req.Tools.Offered {
		turn.Tools = append(turn.Tools, tools([]openai.Tool{tool.Wire})...)
	}
	from = &origins{}
	turn.Items = make([]appserver.Item, 0, len(items)+len(req.Tools.Instructions)+1)
	var calls callCheck
	for i, item := range items {
		calls.add(item)
		mark := ""
		if mark, item.Encrypted = unmark(item.Encrypted); conversation[i].Worker != "" {
			mark = markOf(conversation[i].Worker)
		}
		if injected := inject(item); injected != nil {
			turn.Items = append(turn.Items, injected)
			if item.Type == "reasoning" {
				from.add(injected, mark)
			}
		}
	}
	if len(turn.Items) == 0 {
		return turn, nil, 0, openai.Invalid("input_required", "input", "input must hold at least one message")
	}
	for _, words := range append(req.Tools.Instructions, req.Format.Instruction) {
		if words != "" {
			turn.Items = append(turn.Items, appserver.TextMessage("developer", words))
		}
	}
	return turn, from, images, calls.verdict()
}

// imagesOf are those of a conversation, which ends with the input of the request.
func imagesOf(req *openai.ResponseRequest, items []openai.Item) (list []openai.PlacedImage) {
	history := len(items) - len(req.Input)
	for i, item := range items {
		placed := item.Images("")
		switch {
		case i < history:
			placed = at("previous_response_id", placed)
		case req.Input[i-history].Reference != "":
			placed = at(req.Input[i-history].At, placed)
		default:
			placed = item.Images(req.Input[i-history].At)
		}
		list = append(list, placed...)
	}
	return list
}

// at puts images where they came in from.
func at(place string, images []openai.PlacedImage) []openai.PlacedImage {
	for i := range images {
		images[i].At = place
	}
	return images
}

// readItems decodes a conversation, and offers the tools that came in it.
func readItems(req *openai.ResponseRequest, conversation []said) (items []openai.Item, err error) {
	var tools []json.RawMessage
	items = make([]openai.Item, 0, len(conversation))
	for _, kept := range conversation {
		item, err := kept.read()
		if err != nil {
			return nil, err
		}
		items, tools = append(items, item), append(tools, item.Tools...)
	}
	return items, req.AddTools(tools)
}

// inject is the item as codex takes it into a history; nil if it has nothing to
// say. Codex drops "system" silently, so that becomes a developer message, and
// custom tools are functions to it.
func inject(i openai.Item) appserver.Item {
	switch i.Type {
	case "message":
		role := i.Role
		if role == "system" {
			role = "developer"
		}
		return appserver.Message(role, partsOf(i.Content)...)
	case "function_call":
		return appserver.FunctionCall(i.CallID, openai.WireName(i.Namespace, i.Name), i.Arguments.Text)
	case "custom_tool_call":
		arguments, err := openai.Encode(map[string]string{"input": i.Input})
		if err != nil { // strings always encode
			panic(err)
		}
		return appserver.FunctionCall(i.CallID, openai.WireName(i.Namespace, i.Name), string(arguments))
	case "tool_search_call":
		return appserver.FunctionCall(i.CallID, openai.SearchTool, i.Arguments.Text)
	case "tool_search_output":
		return appserver.FunctionCallOutput(i.CallID, found(i.Tools))
	case "function_call_output", "custom_tool_call_output":
		if i.Output.Text == nil {
			return appserver.FunctionCallParts(i.CallID, partsOf(i.Output.Parts)...)
		}
		return appserver.FunctionCallOutput(i.CallID, *i.Output.Text)
	case "reasoning":
		if i.Encrypted != "" {
			return appserver.Reasoning(i.SummaryTexts(), i.Encrypted)
		}
	}
	return nil
}

// found tells the model what its search for tools has brought: they are among its
// tools from then on.
func found(tools []json.RawMessage) string {
	if len(tools) == 0 {
		return "The search has found no tools."
	}
	var text strings.Builder
	text.WriteString("The search has found these tools, which can be called now:")
	for _, tool := range tools {
		text.WriteByte('\n')
		text.Write(tool)
	}
	return text.String()
}

func partsOf(parts []openai.ItemPart) []appserver.Content {
	list := make([]appserver.Content, 0, len(parts))
	for _, p := range parts {
		c := appserver.Content{Type: p.Type, Text: p.Text}
		if p.Image != nil {
			c.ImageURL, c.Detail = p.Image.URL, p.Image.Detail
		}
		list = append(list, c)
	}
	return list
}

// callCheck finds calls and outputs without each other: codex would drop an
// output silently, and make one up for a call.
type callCheck struct {
	open   map[string]bool // calls without an output
	orphan string          // an output without a call
}

func (c *callCheck) add(i openai.Item) {
	if c.open == nil {
		c.open = map[string]bool{}
	}
	switch i.Type {
	case "function_call", "custom_tool_call", "tool_search_call":
		c.open[i.CallID] = true
	case "function_call_output", "custom_tool_call_output", "tool_search_output":
		if !c.open[i.CallID] && c.orphan == "" {
			c.orphan = i.CallID
		}
		delete(c.open, i.CallID)
	}
}

func (c *callCheck) verdict() error {
	if c.orphan != "" {
		return openai.Invalid("tool_call_id_unknown", "input", fmt.Sprintf("no tool call found for the output with call_id %q", bounded(c.orphan)))
	}
	for id := range c.open {
		return openai.Invalid("tool_result_missing", "input", fmt.Sprintf("no tool output found for the call with call_id %q", bounded(id)))
	}
	return nil
}

// previousNotFound is OpenAI's answer to a previous_response_id that leads nowhere.
func previousNotFound(id, why string) error {
	return &openai.Error{
		Status: http.StatusBadRequest, Type: openai.TypeInvalidRequest, Code: "previous_response_not_found", Param: "previous_response_id",
		Message: fmt.Sprintf("previous response %q not found: %s; send the whole conversation as input", bounded(id), why),
	}
}
