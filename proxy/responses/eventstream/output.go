package eventstream

import (
	"strings"

	"codex-proxy/proxy/responses/wire"
)

// output is the output of a response in the making, and the number of its events. One item is open at a time.
type output struct {
	response wire.Response
	newID    func(prefix string) string

	encrypted       bool   // the client asked for the encrypted reasoning
	reasoningPrefix string // of encrypted reasoning

	sequence  int
	open      *openItem
	hasOutput bool              // there is a message or a call
	called    bool              // there is a call
	finished  map[string]bool   // the model's ids of finished items
	full      []wire.OutputItem // the output with everything that the next turn needs
}

// openItem is an unfinished item.
type openItem struct {
	wire.OutputItem
	modelID   string // the model's id of the item
	index     int
	text      strings.Builder // of the message, or of the open part of the summary
	part      int             // the open part of the summary; -1: none is open
	modelPart int             // the model's number of that part
}

// Response is the current response.
func (b *output) Response() wire.Response {
	r := b.response
	r.Output = append([]wire.OutputItem{}, r.Output...)
	return r
}

// FullOutput is the output so far with the encrypted reasoning, whether the client asked for that or not.
func (b *output) FullOutput() []wire.OutputItem { return b.full }

// HasOutput reports whether there is a message or a call.
func (b *output) HasOutput() bool { return b.hasOutput }

// event is the next event.
func (b *output) event(kind string) Event {
	e := Event{Type: kind, SequenceNumber: b.sequence}
	b.sequence++
	return e
}

// responseEvent is an event with the current response.
func (b *output) responseEvent(kind string) Event {
	e, r := b.event(kind), b.Response()
	e.Response = &r
	return e
}

// itemIDEvent is an event that names the open item.
func (b *output) itemIDEvent(kind string) Event {
	e := b.event(kind)
	e.ItemID, e.OutputIndex = b.open.ID, new(b.open.index)
	return e
}

// itemEvent is an event that contains the open item.
func (b *output) itemEvent(kind string) Event {
	e, item := b.event(kind), b.open.OutputItem
	e.Item, e.OutputIndex = &item, new(b.open.index)
	return e
}

// ensureOpen opens the item of that type and model id, unless it is open, and closes any other.
func (b *output) ensureOpen(kind, modelID string) []Event {
	if b.open != nil && b.open.Type == kind && b.open.modelID == modelID {
		return nil
	}
	return append(b.closeItem(wire.StatusCompleted), b.openItem(kind, modelID)...)
}

func (b *output) openItem(kind, modelID string) []Event {
	prefix := "msg_"
	if kind == wire.ItemReasoning {
		prefix = "rs_"
	}
	b.open = &openItem{
		OutputItem: wire.OutputItem{Type: kind, ID: b.newID(prefix), Status: wire.StatusInProgress},
		modelID:    modelID, index: len(b.response.Output), part: -1,
	}
	events := []Event{b.itemEvent("response.output_item.added")}
	if kind == wire.ItemReasoning {
		return events
	}
	part := b.itemIDEvent("response.content_part.added")
	part.ContentIndex, part.Part = new(int), wire.OutputText("")
	return append(events, part)
}

// closeItem closes the open item, if there is one.
func (b *output) closeItem(status string) []Event {
	if b.open == nil {
		return nil
	}
	var events []Event
	if b.open.Type == wire.ItemMessage {
		events = b.closeText()
	} else {
		events = b.closePart()
	}
	return append(events, b.finishItem(status))
}

func (b *output) closeText() []Event {
	text := b.open.text.String()
	b.open.Text = &text
	done := b.itemIDEvent("response.output_text.done")
	done.ContentIndex, done.Text, done.Logprobs = new(int), &text, &[]struct{}{}
	part := b.itemIDEvent("response.content_part.done")
	part.ContentIndex, part.Part = new(int), wire.OutputText(text)
	return []Event{done, part}
}

// openPart opens the part of the summary that has the model's number part. Parts are numbered in the order of their
// arrival, without gaps.
func (b *output) openPart(part int) []Event {
	if b.open.part >= 0 && part == b.open.modelPart {
		return nil
	}
	events := b.closePart()
	b.open.part, b.open.modelPart = len(b.open.Summary), part
	b.open.Summary = append(b.open.Summary, "")
	e := b.itemIDEvent("response.reasoning_summary_part.added")
	e.SummaryIndex, e.Part = new(b.open.part), wire.SummaryText("")
	return append(events, e)
}

func (b *output) closePart() []Event {
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
	part.SummaryIndex, part.Part = new(o.part), wire.SummaryText(text)
	o.part = -1
	return []Event{done, part}
}

// finishItem moves the open item to the output.
func (b *output) finishItem(status string) Event {
	b.open.Status = status
	if b.open.modelID != "" {
		b.finished[b.open.modelID] = true
	}
	b.hasOutput = b.hasOutput || b.open.Type != wire.ItemReasoning
	b.called = b.called || b.open.Type != wire.ItemReasoning && b.open.Type != wire.ItemMessage
	reasoning := b.open.Type == wire.ItemReasoning
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
