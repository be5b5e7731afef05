package proxy

import (
	"slices"
	"strings"

	"codex-proxy/proxy/appserver"
	"codex-proxy/proxy/openai"
)

// plan maps a chat request onto a turn: the system messages that open the
// history become the thread's instructions, everything after them is injected
// in its own role. A later system message becomes a developer message, the role
// that takes its place in the Responses API; codex drops "system" silently. What
// codex has no setting for is asked of the model at the end, where it weighs most.
func plan(req *openai.ChatRequest) appserver.TurnRequest {
	instructions, history := splitInstructions(req.Messages)
	turn := appserver.TurnRequest{
		Model: req.Model, BaseInstructions: &instructions, Effort: req.Reasoning.Effort, Summary: req.Reasoning.Summary,
		OutputSchema: req.Format.Schema, Tools: tools(req.Tools), ServiceTier: req.ServiceTier, Verbosity: req.Verbosity,
	}
	turn.Items = make([]appserver.Item, 0, len(history)+len(req.Instructions)+1)
	for _, m := range history {
		turn.Items = append(turn.Items, items(m)...)
	}
	for _, text := range append(req.Instructions, req.Format.Instruction) {
		if text != "" {
			turn.Items = append(turn.Items, appserver.TextMessage("developer", text))
		}
	}
	return turn
}

// splitInstructions keeps the last message in the history whatever its role:
// codex refuses to run a turn on an empty one.
func splitInstructions(messages []openai.Message) (string, []openai.Message) {
	n := 0
	for n < len(messages)-1 && messages[n].Role == "system" {
		n++
	}
	texts := make([]string, 0, n)
	for _, m := range messages[:n] {
		texts = append(texts, nameOf(m)+joined(m.Parts))
	}
	return strings.Join(texts, "\n\n"), messages[n:]
}

// items are the pieces of history that one message is.
func items(m openai.Message) []appserver.Item {
	var list []appserver.Item
	switch m.Role {
	case "tool":
		return append(list, appserver.FunctionCallOutput(m.CallID, joined(m.Parts)))
	case "assistant":
		if says(m.Parts) || len(m.Calls) == 0 {
			list = append(list, appserver.Message("assistant", contents(m, "output_text")...))
		}
		for _, c := range m.Calls {
			list = append(list, appserver.FunctionCall(c.ID, c.Name, c.Arguments))
		}
		return list
	case "system":
		m.Role = "developer"
	}
	return append(list, appserver.Message(m.Role, contents(m, "input_text")...))
}

// contents are the parts of a message. Its name, for which codex has no field, is
// a part in front of them.
func contents(m openai.Message, text string) []appserver.Content {
	var list []appserver.Content
	if name := nameOf(m); name != "" {
		list = append(list, appserver.Content{Type: text, Text: name})
	}
	for _, p := range m.Parts {
		if p.Image != nil {
			list = append(list, appserver.Content{Type: "input_image", ImageURL: p.Image.URL, Detail: p.Image.Detail})
		} else {
			list = append(list, appserver.Content{Type: text, Text: p.Text})
		}
	}
	return list
}

func nameOf(m openai.Message) string {
	if m.Name == "" {
		return ""
	}
	return "[name: " + m.Name + "]\n"
}

func says(parts []openai.Part) bool {
	return slices.ContainsFunc(parts, func(p openai.Part) bool { return p.Text != "" })
}

func joined(parts []openai.Part) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

func tools(list []openai.Tool) []appserver.Tool {
	var tools []appserver.Tool
	for _, t := range list {
		tools = append(tools, appserver.Tool{Name: t.Name, Description: t.Description, InputSchema: t.Parameters})
	}
	return tools
}
