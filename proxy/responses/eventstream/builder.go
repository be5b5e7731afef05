package eventstream

import (
	"encoding/json"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/clienttool"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/responses/wire"
)

// Builder makes the events of a streamed response, and the response itself, from the events of a turn. One goroutine
// may use it.
//
// The first event of the turn also yields response.created and response.in_progress, and the first of an item the
// events that open it, so that the order is right for any turn. The final response equals the streamed one.
type Builder struct {
	output
	tools   map[string]clienttool.Tool // by the name that the worker knows
	single  bool                       // the client accepts one call
	summary bool                       // the client asked for a summary of the reasoning

	compaction *compaction // in place of an answer; nil: it is an answer

	begun bool // Begin was called
}

// New begins with the response blank of req. reasoningPrefix precedes encrypted reasoning, also in all
// its copies. newID makes the ids of items.
func New(req *wire.Request, blank wire.Response, reasoningPrefix string,
	newID func(prefix string) string) *Builder {
	b := &Builder{
		output: output{response: blank, reasoningPrefix: reasoningPrefix, newID: newID, encrypted: req.Encrypted,
			finished: map[string]bool{}},
		tools: req.Tools.ByWireName(), single: req.Tools.Single, summary: req.Reasoning.Summary != "",
	}
	if req.Compaction != nil {
		b.compaction = newCompaction(*req.Compaction)
	}
	return b
}

// Queue makes the events of a background response that waits for its turn, before all others.
func (b *Builder) Queue() []Event {
	b.response.Status = wire.StatusQueued
	return []Event{b.responseEvent("response.created"), b.responseEvent("response.queued")}
}

// Refuse adds a message of the model that refuses to answer, in these words.
func (b *Builder) Refuse(words string) []Event {
	events := append(b.Begin(), b.closeItem(wire.StatusCompleted)...)
	b.open = &openItem{
		OutputItem: wire.OutputItem{Type: wire.ItemMessage, ID: b.newID("msg_"),
			Status: wire.StatusInProgress}, index: len(b.response.Output),
	}
	events = append(events, b.itemEvent("response.output_item.added"))
	b.open.Refusal = &words
	for _, kind := range []string{"response.content_part.added", "response.refusal.delta", "response.refusal.done",
		"response.content_part.done"} {
		e := b.itemIDEvent(kind)
		e.ContentIndex = new(int)
		switch kind {
		case "response.content_part.added":
			e.Part = wire.RefusalPart{Type: "refusal"}
		case "response.refusal.delta":
			e.Delta = &words
		case "response.refusal.done":
			e.Refusal = &words
		default:
			e.Part = wire.RefusalPart{Type: "refusal", Refusal: words}
		}
		events = append(events, e)
	}
	return append(events, b.finishItem(wire.StatusCompleted))
}

// Begin makes the first events, or the first ones after the events of Queue; once.
func (b *Builder) Begin() (events []Event) {
	if b.begun {
		return nil
	}
	b.begun, b.response.Status = true, wire.StatusInProgress
	if b.sequence == 0 {
		events = append(events, b.responseEvent("response.created"))
	}
	return append(events, b.responseEvent("response.in_progress"))
}

// Text adds to the message with the model's id modelID.
func (b *Builder) Text(modelID, delta string) []Event {
	events := b.Begin()
	if b.finished[modelID] {
		return events
	}
	if b.compaction != nil {
		b.compaction.draft.Text(modelID, delta)
		return events
	}
	events = append(events, b.ensureOpen(wire.ItemMessage, modelID)...)
	b.open.text.WriteString(delta)
	for piece := range openai.Pieces(delta) {
		e := b.itemIDEvent("response.output_text.delta")
		e.ContentIndex, e.Delta, e.Logprobs = new(int), &piece, &[]struct{}{}
		events = append(events, e)
	}
	return events
}

// Reasoning adds to one part of the summary of the reasoning item with the model's id modelID.
func (b *Builder) Reasoning(modelID string, part int, delta string) []Event {
	events := b.Begin()
	if !b.summary || b.finished[modelID] || b.compaction != nil {
		return events
	}
	events = append(events, b.ensureOpen(wire.ItemReasoning, modelID)...)
	events = append(events, b.openPart(part)...)
	b.open.text.WriteString(delta)
	for piece := range openai.Pieces(delta) {
		e := b.itemIDEvent("response.reasoning_summary_text.delta")
		e.SummaryIndex, e.Delta = new(b.open.part), &piece
		events = append(events, e)
	}
	return events
}

// Item finishes an item with the model's version of it. Codex handles calls of all tools that are not the client's;
// they make no event.
func (b *Builder) Item(raw json.RawMessage) []Event {
	if b.compaction != nil {
		b.compaction.draft.Item(raw)
		return b.Begin()
	}
	var item modelItem
	if jsonbody.Unmarshal(raw, &item) != nil || item.ID != "" && b.finished[item.ID] {
		return nil
	}
	switch item.Type {
	case wire.ItemMessage:
		return b.finishMessage(item)
	case wire.ItemReasoning:
		return b.finishReasoning(item)
	case wire.ItemFunction:
		tool, ok := b.tools[item.Name]
		if !ok || b.single && b.called {
			return nil
		}
		return b.call(tool, item)
	default:
		return nil
	}
}

// End ends the response at the end of a turn, for a finish reason of chat completions.
func (b *Builder) End(finish string, usage *openai.Usage, at int64) []Event {
	b.response.Usage = wire.NewUsage(usage)
	switch finish {
	case openai.FinishLength:
		return b.endEarly(wire.StatusIncomplete, "max_output_tokens")
	case openai.FinishContentFilter:
		return b.endEarly(wire.StatusIncomplete, "content_filter")
	}
	events := append(b.Begin(), b.closeItem(wire.StatusCompleted)...)
	b.response.Status, b.response.CompletedAt = wire.StatusCompleted, &at
	return append(events, b.responseEvent("response.completed"))
}

// TakeBack takes back the last event of End, which was not sent: the response can fail after it.
func (b *Builder) TakeBack() {
	b.sequence--
	b.response.Status, b.response.CompletedAt, b.response.IncompleteDetails = wire.StatusInProgress, nil, nil
}

// Cancel ends a response that a client has cancelled. OpenAI has no event for that.
func (b *Builder) Cancel(usage *openai.Usage) []Event {
	b.response.Usage = wire.NewUsage(usage)
	return b.endEarly(wire.StatusCancelled, "")
}

// Fail ends the response by an error. alert puts an event error before response.failed, which clients of server-sent
// events raise. On a WebSocket error is an end of its own: a client would take response.failed for the next response's.
func (b *Builder) Fail(err *openai.Error, usage *openai.Usage, alert bool) []Event {
	events := append(b.Begin(), b.closeItem(wire.StatusIncomplete)...)
	failure := failureOf(err)
	if alert {
		events = append(events, b.errorEvent(err, failure.Code))
	}
	b.response.Usage = wire.NewUsage(usage)
	b.response.Status, b.response.Error = wire.StatusFailed, failure
	return append(events, b.responseEvent("response.failed"))
}

func (b *Builder) endEarly(status, reason string) []Event {
	events := append(b.Begin(), b.closeItem(wire.StatusIncomplete)...)
	b.response.Status = status
	if reason != "" {
		b.response.IncompleteDetails = &wire.Incomplete{Reason: reason}
	}
	return append(events, b.responseEvent("response.incomplete"))
}

// errorEvent has the error with the code that the response gets.
func (b *Builder) errorEvent(err *openai.Error, code string) Event {
	e, body := b.event("error"), err.Body()
	body.Code = code
	e.errorFields = &errorFields{Code: code, Message: err.Message, Param: body.Param, Error: body}
	return e
}

// modelItem is an item as the model produced it.
type modelItem struct {
	Type      string             `json:"type"`
	ID        string             `json:"id"`
	Content   []wire.ContentPart `json:"content"`
	Summary   []wire.SummaryPart `json:"summary"`
	Encrypted string             `json:"encrypted_content"`
	Name      string             `json:"name"`
	Arguments string             `json:"arguments"`
	CallID    string             `json:"call_id"`
}
