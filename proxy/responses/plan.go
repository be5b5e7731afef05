package responses

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/history"
	"codex-proxy/proxy/intake"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/reasoning"
)

// plan is the turn of a response.
type plan struct {
	turn      appserver.TurnRequest
	reasoning reasoning.Owners
	images    int64    // bytes that codex needs to decode the images
	kept      retained // by a compaction
}

// planTurn maps a request, with the whole conversation, onto a turn.
func planTurn(req *openai.ResponseRequest, conversation []item) (*plan, error) {
	conversation, err := pruned(conversation, len(conversation)-len(req.Input))
	if err != nil {
		return nil, err
	}
	items, err := decodeItems(req, conversation)
	if err != nil {
		return nil, err
	}
	req.ApplyUpdates(items[:len(items)-len(req.Input)])
	p := &plan{turn: settingsOf(req)}
	if p.images, err = intake.Decoding(imagesOf(req, items), 1); err != nil {
		return nil, err
	}
	if err := p.addItems(items, conversation); err != nil {
		return nil, err
	}
	if req.Compaction != nil {
		return p, p.compact(req, conversation)
	}
	for _, words := range append(req.Tools.Instructions, req.Format.Instruction) {
		if words != "" {
			p.turn.Items = append(p.turn.Items, history.TextMessage("developer", words))
		}
	}
	return p, nil
}

// settingsOf is the turn of a request without its conversation.
func settingsOf(req *openai.ResponseRequest) appserver.TurnRequest {
	instructions := ""
	if req.Instructions != nil {
		instructions = *req.Instructions
	}
	return appserver.TurnRequest{
		Model: req.Model, BaseInstructions: &instructions, Effort: req.Reasoning.Effort,
		Summary:      cmp.Or(req.Reasoning.Summary, "none"),
		OutputSchema: req.Format.Schema, ServiceTier: req.ServiceTier, Verbosity: req.Verbosity,
		Tools: intake.Tools(req.Tools.Offered),
	}
}

// addItems adds the conversation, and checks its calls of tools.
func (p *plan) addItems(items []openai.Item, conversation []item) error {
	var calls callCheck
	beside := saidIn(items)
	p.turn.Items = make([]history.Item, 0, len(items)+2)
	for i, decoded := range items {
		calls.add(decoded)
		mark := ""
		if mark, decoded.Encrypted = reasoning.Unmark(decoded.Encrypted); conversation[i].Worker != "" {
			mark = reasoning.Mark(conversation[i].Worker)
		}
		if decoded.Type == "compaction" {
			p.turn.Items = append(p.turn.Items, compactedItems(decoded.Compacted(), beside)...)
		}
		if injected := inject(decoded); injected != nil {
			p.turn.Items = append(p.turn.Items, injected)
			if decoded.Type == "reasoning" {
				p.reasoning.Add(injected, mark)
			}
		}
	}
	if len(p.turn.Items) == 0 {
		return openai.Invalid("input_required", "input", "input must hold at least one message")
	}
	return calls.verdict()
}

// imagesOf returns the images of a conversation, which ends with the input of the request.
func imagesOf(req *openai.ResponseRequest, items []openai.Item) (list []openai.PlacedImage) {
	history, latest := len(items)-len(req.Input), req.Latest()
	for i, item := range items {
		placed := item.Images("")
		switch {
		case i < history:
			placed = at(req.HistoryParam(), placed)
		case req.Input[i-history].Reference != "":
			placed = at(req.Input[i-history].At, placed)
		default:
			placed = item.Images(req.Input[i-history].At)
			for n := range placed {
				placed[n].New = i-history == latest
			}
		}
		list = append(list, placed...)
	}
	return list
}

// at sets the place of images, for errors.
func at(place string, images []openai.PlacedImage) []openai.PlacedImage {
	for i := range images {
		images[i].At = place
	}
	return images
}

// decodeItems decodes a conversation, and offers the tools in it to the model.
func decodeItems(req *openai.ResponseRequest, conversation []item) (items []openai.Item, err error) {
	var tools []json.RawMessage
	items = make([]openai.Item, 0, len(conversation))
	for _, i := range conversation {
		decoded, err := i.decode()
		if err != nil {
			return nil, err
		}
		items, tools = append(items, decoded), append(tools, decoded.Tools...)
	}
	return items, req.AddTools(tools)
}

// inject is the item in codex's history; nil if codex has no use for it. Codex drops
// "system" silently, so such a message becomes a developer message; custom tools are
// functions to codex.
func inject(i openai.Item) history.Item {
	switch i.Type {
	case "message":
		role := i.Role
		if role == "system" {
			role = "developer"
		}
		return history.Message(role, partsOf(i.Content)...)
	case "function_call":
		return history.FunctionCall(i.CallID, openai.WireName(i.Namespace, i.Name), i.Arguments.Text)
	case "custom_tool_call":
		input := ""
		if i.Input != nil {
			input = *i.Input
		}
		return history.FunctionCall(i.CallID, openai.WireName(i.Namespace, i.Name), openai.CustomArguments(input))
	case "tool_search_call":
		return history.FunctionCall(i.CallID, openai.SearchTool, i.Arguments.Text)
	case "tool_search_output":
		return history.FunctionCallOutput(i.CallID, searchResult(i.Tools))
	case "function_call_output", "custom_tool_call_output":
		if i.Output.Text == nil {
			return history.FunctionCallParts(i.CallID, partsOf(i.Output.Parts)...)
		}
		return history.FunctionCallOutput(i.CallID, *i.Output.Text)
	case "reasoning":
		if i.Encrypted != "" {
			return history.Reasoning(i.SummaryTexts(), i.Encrypted)
		}
	}
	return nil
}

// searchResult is the result of the model's search for tools: it can call the tools that
// were found from then on.
func searchResult(tools []json.RawMessage) string {
	if len(tools) == 0 {
		return "The search has found no tools."
	}
	var text strings.Builder
	text.WriteString("The search has found these tools, which can be called now:")
	for _, tool := range openai.FoundTools(tools) {
		line, err := openai.Encode(tool)
		if err != nil { // a checked schema always encodes
			panic(err)
		}
		text.WriteByte('\n')
		text.Write(line)
	}
	return text.String()
}

func partsOf(parts []openai.ItemPart) []history.Content {
	list := make([]history.Content, 0, len(parts))
	for _, p := range parts {
		c := history.Content{Type: p.Type, Text: p.Text}
		switch {
		case p.Image != nil && (p.Image.Omitted() || p.Image.Remote()): // codex would fetch it
			c = history.Content{Type: "input_text", Text: openai.OmittedImage}
		case p.Image != nil:
			c.ImageURL, c.Detail = p.Image.URL, p.Image.Detail
		}
		list = append(list, c)
	}
	return list
}

// callCheck finds outputs without a call and calls without an output: codex would drop such
// an output silently, and invent one for such a call.
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
		return openai.Invalid("tool_call_id_unknown", "input",
			fmt.Sprintf("no tool call found for the output with call_id %q", openai.Bounded(c.orphan)))
	}
	for id := range c.open {
		return openai.Invalid("tool_result_missing", "input",
			fmt.Sprintf("no tool output found for the call with call_id %q", openai.Bounded(id)))
	}
	return nil
}
