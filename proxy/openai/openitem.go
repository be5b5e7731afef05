package openai

import (
	"strings"
)

// What follows opens, grows and closes the items of a ResponseBuilder. One item
// is open at a time.

// grow makes the open item the one of that kind and source.
func (b *ResponseBuilder) grow(kind, source string) []ResponseEvent {
	if b.open != nil && b.open.Type == kind && b.open.source == source {
		return nil
	}
	return append(b.closeItem(StatusCompleted), b.openItem(kind, source)...)
}

func (b *ResponseBuilder) openItem(kind, source string) []ResponseEvent {
	prefix := "msg_"
	if kind == itemReasoning {
		prefix = "rs_"
	}
	b.open = &openItem{
		OutputItem: OutputItem{Type: kind, ID: b.newID(prefix), Status: StatusInProgress},
		source:     source, index: len(b.response.Output), part: -1,
	}
	events := []ResponseEvent{b.item("response.output_item.added")}
	if kind == itemReasoning {
		return events
	}
	part := b.at("response.content_part.added")
	part.ContentIndex, part.Part = new(int), outputText("")
	return append(events, part)
}

// closeItem closes the open item, if there is one, as it stands.
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
	return append(events, b.done(status))
}

func (b *ResponseBuilder) closeText() []ResponseEvent {
	text := b.open.text.String()
	b.open.Text = &text
	done := b.at("response.output_text.done")
	done.ContentIndex, done.Text, done.Logprobs = new(int), &text, &[]struct{}{}
	part := b.at("response.content_part.done")
	part.ContentIndex, part.Part = new(int), outputText(text)
	return []ResponseEvent{done, part}
}

// openPart makes part the open part of the summary. Parts are numbered as they
// come, without gaps, whatever the model counts.
func (b *ResponseBuilder) openPart(part int) []ResponseEvent {
	if b.open.part >= 0 && part == b.open.made {
		return nil
	}
	events := b.closePart()
	b.open.part, b.open.made = len(b.open.Summary), part
	b.open.Summary = append(b.open.Summary, "")
	e := b.at("response.reasoning_summary_part.added")
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
	done := b.at("response.reasoning_summary_text.done")
	done.SummaryIndex, done.Text = new(o.part), &text
	part := b.at("response.reasoning_summary_part.done")
	part.SummaryIndex, part.Part = new(o.part), summaryText(text)
	o.part = -1
	return []ResponseEvent{done, part}
}

// done moves the open item into the output.
func (b *ResponseBuilder) done(status string) ResponseEvent {
	b.open.Status = status
	if b.open.source != "" {
		b.finished[b.open.source] = true
	}
	b.said = b.said || b.open.Type != itemReasoning
	b.called = b.called || b.open.Type != itemReasoning && b.open.Type != itemMessage
	if b.open.Encrypted != "" {
		b.open.Encrypted = b.mark + b.open.Encrypted
	}
	b.kept = append(b.kept, b.open.OutputItem)
	if !b.encrypted {
		b.open.Encrypted = ""
	}
	b.response.Output = append(b.response.Output, b.open.OutputItem)
	e := b.item("response.output_item.done")
	b.open = nil
	return e
}

// finishMessage sends what of the text has not come as deltas.
func (b *ResponseBuilder) finishMessage(made madeItem) []ResponseEvent {
	var text strings.Builder
	for _, part := range made.Content {
		text.WriteString(part.Text)
	}
	events := append(b.Begin(), b.grow(itemMessage, made.ID)...)
	if rest, ok := strings.CutPrefix(text.String(), b.open.text.String()); ok && rest != "" {
		events = append(events, b.Text(made.ID, rest)...)
	}
	return append(events, b.closeItem(StatusCompleted)...)
}

func (b *ResponseBuilder) finishReasoning(made madeItem) []ResponseEvent {
	events := append(b.Begin(), b.grow(itemReasoning, made.ID)...)
	if len(b.open.Summary) == 0 {
		for i, part := range made.Summary {
			events = append(events, b.Reasoning(made.ID, i, part.Text)...)
		}
	}
	b.open.Encrypted = made.Encrypted
	return append(events, b.closeItem(StatusCompleted)...)
}

// call is a call of a client's tool: codex reports its arguments whole.
func (b *ResponseBuilder) call(tool ClientTool, made madeItem) []ResponseEvent {
	events := append(b.Begin(), b.closeItem(StatusCompleted)...)
	b.open = &openItem{
		OutputItem: OutputItem{
			Type: itemFunction, ID: b.newID("fc_"), Status: StatusInProgress,
			CallID: made.CallID, Name: tool.Name, Namespace: tool.Namespace,
		},
		source: made.ID, index: len(b.response.Output),
	}
	arguments := made.Arguments
	delta, done := "response.function_call_arguments.delta", "response.function_call_arguments.done"
	if tool.Custom {
		b.open.Type, b.open.ID, arguments = itemCustomCall, b.newID("ctc_"), freeInput(made.Arguments)
		delta, done = "response.custom_tool_call_input.delta", "response.custom_tool_call_input.done"
	}
	if tool.Search { // of which there are no events in between
		b.open.Type, b.open.ID = itemSearchCall, b.newID("tsc_")
		events = append(events, b.item("response.output_item.added"))
		b.open.Arguments = arguments
		return append(events, b.done(StatusCompleted))
	}
	events = append(events, b.item("response.output_item.added"))
	b.open.Arguments = arguments
	d := b.at(delta)
	d.Delta = &arguments
	end := b.at(done)
	if tool.Custom {
		end.Input = &arguments
	} else {
		end.Arguments = &arguments
	}
	return append(events, d, end, b.done(StatusCompleted))
}

// freeInput is the input of a custom tool, which the model was shown as a
// function of one string. Arguments of another shape are the input as they are.
func freeInput(arguments string) string {
	var a struct {
		Input *string `json:"input"`
	}
	if unmarshal([]byte(arguments), &a) != nil || a.Input == nil {
		return arguments
	}
	return *a.Input
}
