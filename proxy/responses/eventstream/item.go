package eventstream

import (
	"strings"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/clienttool"
	"codex-proxy/proxy/responses/wire"
)

// finishMessage sends the text that codex did not send as deltas.
func (b *Builder) finishMessage(item modelItem) []Event {
	var text strings.Builder
	for _, part := range item.Content {
		text.WriteString(part.Text)
	}
	events := append(b.Begin(), b.ensureOpen(wire.ItemMessage, item.ID)...)
	if rest, ok := strings.CutPrefix(text.String(), b.open.text.String()); ok && rest != "" {
		events = append(events, b.Text(item.ID, rest)...)
	}
	return append(events, b.closeItem(wire.StatusCompleted)...)
}

func (b *Builder) finishReasoning(item modelItem) []Event {
	events := append(b.Begin(), b.ensureOpen(wire.ItemReasoning, item.ID)...)
	if len(b.open.Summary) == 0 {
		for i, part := range item.Summary {
			events = append(events, b.Reasoning(item.ID, i, part.Text)...)
		}
	}
	b.open.Encrypted = item.Encrypted
	return append(events, b.closeItem(wire.StatusCompleted)...)
}

// call adds a call of a client's tool. Codex reports its arguments at once.
func (b *Builder) call(tool clienttool.Tool, item modelItem) []Event {
	events := append(b.Begin(), b.closeItem(wire.StatusCompleted)...)
	b.open = &openItem{
		OutputItem: wire.OutputItem{
			Type: wire.ItemFunction, ID: b.newID("fc_"), Status: wire.StatusInProgress,
			CallID: item.CallID, Name: tool.Name, Namespace: tool.Namespace,
		},
		modelID: item.ID, index: len(b.response.Output),
	}
	arguments := item.Arguments
	delta, done := "response.function_call_arguments.delta", "response.function_call_arguments.done"
	if tool.Custom {
		b.open.Type, b.open.ID, arguments = wire.ItemCustomCall, b.newID("ctc_"), clienttool.CustomInput(item.Arguments)
		delta, done = "response.custom_tool_call_input.delta", "response.custom_tool_call_input.done"
	}
	if tool.Search { // OpenAI has no further events for it
		b.open.Type, b.open.ID = wire.ItemSearchCall, b.newID("tsc_")
		events = append(events, b.itemEvent("response.output_item.added"))
		b.open.Arguments = arguments
		return append(events, b.finishItem(wire.StatusCompleted))
	}
	events = append(events, b.itemEvent("response.output_item.added"))
	b.open.Arguments = arguments
	for piece := range openai.Pieces(arguments) {
		d := b.itemIDEvent(delta)
		d.Delta = &piece
		events = append(events, d)
	}
	end := b.itemIDEvent(done)
	if tool.Custom {
		end.Input = &arguments
	} else {
		end.Arguments = &arguments
	}
	return append(events, end, b.finishItem(wire.StatusCompleted))
}
