package openai

import "strings"

// One item of a ResponseBuilder is open at a time.

// ensureOpen opens the item of that type and model id, unless it is open, and closes any other.
func (b *ResponseBuilder) ensureOpen(kind, modelID string) []ResponseEvent {
	if b.open != nil && b.open.Type == kind && b.open.modelID == modelID {
		return nil
	}
	return append(b.closeItem(StatusCompleted), b.openItem(kind, modelID)...)
}

func (b *ResponseBuilder) openItem(kind, modelID string) []ResponseEvent {
	prefix := "msg_"
	if kind == itemReasoning {
		prefix = "rs_"
	}
	b.open = &openItem{
		OutputItem: OutputItem{Type: kind, ID: b.newID(prefix), Status: StatusInProgress},
		modelID:    modelID, index: len(b.response.Output), part: -1,
	}
	events := []ResponseEvent{b.itemEvent("response.output_item.added")}
	if kind == itemReasoning {
		return events
	}
	part := b.itemIDEvent("response.content_part.added")
	part.ContentIndex, part.Part = new(int), outputText("")
	return append(events, part)
}

// closeItem closes the open item, if there is one.
func (b *ResponseBuilder) closeItem(status string) []ResponseEvent {
	if b.open == nil {
		return nil
	}
	var events []ResponseEvent
	if b.open.Type == itemMessage {
		events = b.closeText()
	} else {
		events = b.closePart()
	}
	return append(events, b.finishItem(status))
}

func (b *ResponseBuilder) closeText() []ResponseEvent {
	text := b.open.text.String()
	b.open.Text = &text
	done := b.itemIDEvent("response.output_text.done")
	done.ContentIndex, done.Text, done.Logprobs = new(int), &text, &[]struct{}{}
	part := b.itemIDEvent("response.content_part.done")
	part.ContentIndex, part.Part = new(int), outputText(text)
	return []ResponseEvent{done, part}
}

// openPart opens the part of the summary that has the model's number part. Parts are numbered in the order of their
// arrival, without gaps.
func (b *ResponseBuilder) openPart(part int) []ResponseEvent {
	if b.open.part >= 0 && part == b.open.modelPart {
		return nil
	}
	events := b.closePart()
	b.open.part, b.open.modelPart = len(b.open.Summary), part
	b.open.Summary = append(b.open.Summary, "")
	e := b.itemIDEvent("response.reasoning_summary_part.added")
	e.SummaryIndex, e.Part = new(b.open.part), summaryText("")
	return append(events, e)
}

func (b *ResponseBuilder) closePart() []ResponseEvent {
	o := b.open
	if o.part < 0 {
		return nil
	}
	text := o.text.String()
	o.text.Reset()
	o.Summary[o.part] = text
	done := b.itemIDEvent("response.reasoning_summary_text.done")
	done.SummaryIndex, done.Text = new(o.part), &text
	part := b.itemIDEvent("response.reasoning_summary_part.done")
	part.SummaryIndex, part.Part = new(o.part), summaryText(text)
	o.part = -1
	return []ResponseEvent{done, part}
}

// finishItem moves the open item to the output.
func (b *ResponseBuilder) finishItem(status string) ResponseEvent {
	b.open.Status = status
	if b.open.modelID != "" {
		b.finished[b.open.modelID] = true
	}
	b.hasOutput = b.hasOutput || b.open.Type != itemReasoning
	b.called = b.called || b.open.Type != itemReasoning && b.open.Type != itemMessage
	reasoning := b.open.Type == itemReasoning
	if reasoning && b.open.Encrypted != "" {
		b.open.Encrypted = b.reasoningPrefix + b.open.Encrypted
	}
	b.full = append(b.full, b.open.OutputItem)
	if reasoning && !b.encrypted {
		b.open.Encrypted = ""
	}
	b.response.Output = append(b.response.Output, b.open.OutputItem)
	e := b.itemEvent("response.output_item.done")
	b.open = nil
	return e
}

// finishMessage sends the text that codex did not send as deltas.
func (b *ResponseBuilder) finishMessage(item modelItem) []ResponseEvent {
	var text strings.Builder
	for _, part := range item.Content {
		text.WriteString(part.Text)
	}
	events := append(b.Begin(), b.ensureOpen(itemMessage, item.ID)...)
	if rest, ok := strings.CutPrefix(text.String(), b.open.text.String()); ok && rest != "" {
		events = append(events, b.Text(item.ID, rest)...)
	}
	return append(events, b.closeItem(StatusCompleted)...)
}

func (b *ResponseBuilder) finishReasoning(item modelItem) []ResponseEvent {
	events := append(b.Begin(), b.ensureOpen(itemReasoning, item.ID)...)
	if len(b.open.Summary) == 0 {
		for i, part := range item.Summary {
			events = append(events, b.Reasoning(item.ID, i, part.Text)...)
		}
	}
	b.open.Encrypted = item.Encrypted
	return append(events, b.closeItem(StatusCompleted)...)
}

// call adds a call of a client's tool. Codex reports its arguments at once.
func (b *ResponseBuilder) call(tool ClientTool, item modelItem) []ResponseEvent {
	events := append(b.Begin(), b.closeItem(StatusCompleted)...)
	b.open = &openItem{
		OutputItem: OutputItem{
			Type: itemFunction, ID: b.newID("fc_"), Status: StatusInProgress,
			CallID: item.CallID, Name: tool.Name, Namespace: tool.Namespace,
		},
		modelID: item.ID, index: len(b.response.Output),
	}
	arguments := item.Arguments
	delta, done := "response.function_call_arguments.delta", "response.function_call_arguments.done"
	if tool.Custom {
		b.open.Type, b.open.ID, arguments = itemCustomCall, b.newID("ctc_"), customInput(item.Arguments)
		delta, done = "response.custom_tool_call_input.delta", "response.custom_tool_call_input.done"
	}
	if tool.Search { // OpenAI has no further events for it
		b.open.Type, b.open.ID = itemSearchCall, b.newID("tsc_")
		events = append(events, b.itemEvent("response.output_item.added"))
		b.open.Arguments = arguments
		return append(events, b.finishItem(StatusCompleted))
	}
	events = append(events, b.itemEvent("response.output_item.added"))
	b.open.Arguments = arguments
	for piece := range Pieces(arguments) {
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
	return append(events, end, b.finishItem(StatusCompleted))
}
