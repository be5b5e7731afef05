package plan

import (
	"cmp"
	"encoding/json"
	"strings"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/history"
	"codex-proxy/proxy/admission"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/clienttool"
	"codex-proxy/proxy/openai/media"
	"codex-proxy/proxy/reasoning"
	"codex-proxy/proxy/responses/wire"
)

// Plan is the turn of a response.
type Plan struct {
	Turn      appserver.TurnRequest
	Reasoning reasoning.Owners
	Images    int64    // bytes that codex needs to decode the images
	Kept      Retained // by a compaction
}

// New maps a request, with the whole conversation, onto a turn.
func New(req *wire.Request, conversation []Item) (*Plan, error) {
	conversation, err := pruned(conversation, len(conversation)-len(req.Input))
	if err != nil {
		return nil, err
	}
	items, err := decodeItems(req, conversation)
	if err != nil {
		return nil, err
	}
	req.ApplyUpdates(items[:len(items)-len(req.Input)])
	p := &Plan{Turn: settingsOf(req)}
	if p.Images, err = admission.Decoding(imagesOf(req, items), 1); err != nil {
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
			p.Turn.Items = append(p.Turn.Items, history.TextMessage("developer", words))
		}
	}
	return p, nil
}

// settingsOf is the turn of a request without its conversation.
func settingsOf(req *wire.Request) appserver.TurnRequest {
	instructions := ""
	if req.Instructions != nil {
		instructions = *req.Instructions
	}
	return appserver.TurnRequest{
		Model: req.Model, BaseInstructions: &instructions, Effort: req.Reasoning.Effort,
		Summary:      cmp.Or(req.Reasoning.Summary, "none"),
		OutputSchema: req.Format.Schema, ServiceTier: req.ServiceTier, Verbosity: req.Verbosity,
		Tools: admission.Tools(req.Tools.Offered),
	}
}

// addItems adds the conversation, and checks its calls of tools.
func (p *Plan) addItems(items []wire.Item, conversation []Item) error {
	var calls callCheck
	beside := saidIn(items)
	p.Turn.Items = make([]history.Item, 0, len(items)+2)
	for i, decoded := range items {
		calls.add(decoded)
		origin := ""
		if origin, decoded.Encrypted = reasoning.Split(decoded.Encrypted); conversation[i].Worker != "" {
			origin = reasoning.Origin(conversation[i].Worker)
		}
		if decoded.Type == "compaction" {
			p.Turn.Items = append(p.Turn.Items, compactedItems(decoded.Compacted(), beside)...)
		}
		if injected := inject(decoded); injected != nil {
			p.Turn.Items = append(p.Turn.Items, injected)
			if decoded.Type == "reasoning" {
				p.Reasoning.Add(injected, origin)
			}
		}
	}
	if len(p.Turn.Items) == 0 {
		return openai.Invalid("input_required", "input", "input must hold at least one message")
	}
	return calls.verdict()
}

// imagesOf returns the images of a conversation, which ends with the input of the request.
func imagesOf(req *wire.Request, items []wire.Item) (list []media.PlacedImage) {
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
func at(place string, images []media.PlacedImage) []media.PlacedImage {
	for i := range images {
		images[i].At = place
	}
	return images
}

// decodeItems decodes a conversation, and offers the tools in it to the model.
func decodeItems(req *wire.Request, conversation []Item) (items []wire.Item, err error) {
	var tools []json.RawMessage
	items = make([]wire.Item, 0, len(conversation))
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
func inject(i wire.Item) history.Item {
	switch i.Type {
	case "message":
		role := i.Role
		if role == "system" {
			role = "developer"
		}
		return history.Message(role, partsOf(i.Content)...)
	case "function_call":
		return history.FunctionCall(i.CallID, clienttool.WireName(i.Namespace, i.Name), i.Arguments.Text)
	case "custom_tool_call":
		input := ""
		if i.Input != nil {
			input = *i.Input
		}
		return history.FunctionCall(i.CallID, clienttool.WireName(i.Namespace, i.Name),
			clienttool.CustomArguments(input))
	case "tool_search_call":
		return history.FunctionCall(i.CallID, wire.SearchTool, i.Arguments.Text)
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
	for _, tool := range wire.FoundTools(tools) {
		line, err := openai.Encode(tool)
		if err != nil { // a checked schema always encodes
			panic(err)
		}
		text.WriteByte('\n')
		text.Write(line)
	}
	return text.String()
}

func partsOf(parts []wire.ItemPart) []history.Content {
	list := make([]history.Content, 0, len(parts))
	for _, p := range parts {
		c := history.Content{Type: p.Type, Text: p.Text}
		switch {
		case p.Image != nil && (p.Image.Omitted() || p.Image.Remote()): // codex would fetch it
			c = history.Content{Type: "input_text", Text: media.OmittedImage}
		case p.Image != nil:
			c.ImageURL, c.Detail = p.Image.URL, p.Image.Detail
		}
		list = append(list, c)
	}
	return list
}
