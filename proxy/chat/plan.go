package chat

import (
	"slices"
	"strings"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/history"
	"codex-proxy/proxy/admission"
	"codex-proxy/proxy/chat/wire"
	"codex-proxy/proxy/openai/media"
)

// plan is the common part of the turns of all choices.
type plan struct {
	turn   appserver.TurnRequest
	images int64         // bytes that codex needs to decode the images
	starts chan struct{} // see turn.Request.Starts
}

// planTurn maps a chat request onto a turn. The system messages that open the history
// become the thread's instructions; all messages after them are injected in their own
// roles. A later system message becomes a developer message, the role that replaces it in
// the Responses API: codex drops "system" silently. Parameters without a setting of codex
// become instructions at the end, where the model weighs them most.
func planTurn(req *wire.Request) appserver.TurnRequest {
	instructions, messages := splitInstructions(req.Messages)
	turn := appserver.TurnRequest{
		Model: req.Model, BaseInstructions: &instructions, Effort: req.Reasoning.Effort, Summary: req.Reasoning.Summary,
		OutputSchema: req.Format.Schema, Tools: admission.Tools(req.Tools), ServiceTier: req.ServiceTier,
		Verbosity: req.Verbosity,
	}
	turn.Items = make([]history.Item, 0, len(messages)+len(req.Instructions)+1)
	for _, m := range messages {
		turn.Items = append(turn.Items, items(m)...)
	}
	for _, text := range append(req.Instructions, req.Format.Instruction) {
		if text != "" {
			turn.Items = append(turn.Items, history.TextMessage("developer", text))
		}
	}
	return turn
}

// splitInstructions keeps the last message in the history in any role: codex refuses to run a turn on an empty one.
func splitInstructions(messages []wire.Message) (string, []wire.Message) {
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

// items are the items of history that one message becomes.
func items(m wire.Message) []history.Item {
	var list []history.Item
	switch m.Role {
	case "tool":
		if hasImages(m.Parts) {
			return append(list, history.FunctionCallParts(m.CallID, contents(m, "input_text")...))
		}
		return append(list, history.FunctionCallOutput(m.CallID, joined(m.Parts)))
	case "assistant":
		if hasText(m.Parts) || len(m.Calls) == 0 {
			list = append(list, history.Message("assistant", contents(m, "output_text")...))
		}
		for _, c := range m.Calls {
			name, arguments := c.Wire()
			list = append(list, history.FunctionCall(c.ID, name, arguments))
		}
		return list
	case "system":
		m.Role = "developer"
	}
	return append(list, history.Message(m.Role, contents(m, "input_text")...))
}

// contents are the parts of a message, after a part with its name: codex has no field for
// names.
func contents(m wire.Message, text string) []history.Content {
	var list []history.Content
	if name := nameOf(m); name != "" {
		list = append(list, history.Content{Type: text, Text: name})
	}
	return admission.AppendContents(list, m.Parts, text)
}

func nameOf(m wire.Message) string {
	if m.Name == "" {
		return ""
	}
	return "[name: " + m.Name + "]\n"
}

func hasText(parts []media.Part) bool {
	return slices.ContainsFunc(parts, func(p media.Part) bool { return p.Text != "" })
}

func hasImages(parts []media.Part) bool {
	return slices.ContainsFunc(parts, func(p media.Part) bool { return p.Image != nil })
}

func joined(parts []media.Part) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}
