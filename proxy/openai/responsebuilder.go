package openai

import (
	"encoding/json"
	"strings"
)

// ResponseBuilder makes the events of a streamed response, and the response itself, from the events of a turn. One
// goroutine may use it.
//
// The first event of the turn also yields response.created and response.in_progress, and the first of an item the
// events that open it, so that the order is right for any turn. The final response equals the streamed one.
type ResponseBuilder struct {
	response  Response
	tools     map[string]ClientTool // by the name that the worker knows
	newID     func(prefix string) string
	single    bool // the client accepts one call
	summary   bool // the client asked for a summary of the reasoning
	encrypted bool // the client asked for the encrypted reasoning

	reasoningPrefix string // of encrypted reasoning

	compaction *compaction // in place of an answer; nil: it is an answer

	sequence  int
	begun     bool // Begin was called
	open      *openItem
	hasOutput bool            // there is a message or a call
	called    bool            // there is a call
	finished  map[string]bool // the model's ids of finished items
	full      []OutputItem    // the output with everything that the next turn needs
}

// openItem is an unfinished item.
type openItem struct {
	OutputItem
	modelID   string // the model's id of the item
	index     int
	text      strings.Builder // of the message, or of the open part of the summary
	part      int             // the open part of the summary; -1: none is open
	modelPart int             // the model's number of that part
}

// NewResponseBuilder begins with the response blank of req. reasoningPrefix precedes encrypted reasoning, also in all
// its copies. newID makes the ids of items.
func NewResponseBuilder(req *ResponseRequest, blank Response, reasoningPrefix string,
	newID func(prefix string) string) *ResponseBuilder {
	b := &ResponseBuilder{
		response: blank, reasoningPrefix: reasoningPrefix, tools: req.Tools.byWireName(), newID: newID,
		single: req.Tools.Single, summary: req.Reasoning.Summary != "", encrypted: req.Encrypted,
		finished: map[string]bool{},
	}
	if req.Compaction != nil {
		b.compaction = newCompaction(*req.Compaction)
	}
	return b
}

// Response is the current response.
func (b *ResponseBuilder) Response() Response {
	r := b.response
	r.Output = append([]OutputItem{}, r.Output...)
	return r
}

// FullOutput is the output so far with the encrypted reasoning, whether the client asked for that or not.
func (b *ResponseBuilder) FullOutput() []OutputItem { return b.full }

// Queue makes the events of a background response that waits for its turn, before all others.
func (b *ResponseBuilder) Queue() []ResponseEvent {
	b.response.Status = StatusQueued
	return []ResponseEvent{b.responseEvent("response.created"), b.responseEvent("response.queued")}
}

// Begin makes the first events, or the first ones after the events of Queue; once.
func (b *ResponseBuilder) Begin() (events []ResponseEvent) {
	if b.begun {
		return nil
	}
	b.begun, b.response.Status = true, StatusInProgress
	if b.sequence == 0 {
		events = append(events, b.responseEvent("response.created"))
	}
	return append(events, b.responseEvent("response.in_progress"))
}

// Text adds to the message with the model's id modelID.
func (b *ResponseBuilder) Text(modelID, delta string) []ResponseEvent {
	events := b.Begin()
	if b.finished[modelID] {
		return events
	}
	if b.compaction != nil {
		b.compaction.draft.Text(modelID, delta)
		return events
	}
	events = append(events, b.ensureOpen(itemMessage, modelID)...)
	b.open.text.WriteString(delta)
	for piece := range Pieces(delta) {
		e := b.itemIDEvent("response.output_text.delta")
		e.ContentIndex, e.Delta, e.Logprobs = new(int), &piece, &[]struct{}{}
		events = append(events, e)
	}
	return events
}

// Reasoning adds to one part of the summary of the reasoning item with the model's id modelID.
func (b *ResponseBuilder) Reasoning(modelID string, part int, delta string) []ResponseEvent {
	events := b.Begin()
	if !b.summary || b.finished[modelID] || b.compaction != nil {
		return events
	}
	events = append(events, b.ensureOpen(itemReasoning, modelID)...)
	events = append(events, b.openPart(part)...)
	b.open.text.WriteString(delta)
	for piece := range Pieces(delta) {
		e := b.itemIDEvent("response.reasoning_summary_text.delta")
		e.SummaryIndex, e.Delta = new(b.open.part), &piece
		events = append(events, e)
	}
	return events
}

// Item finishes an item with the model's version of it. Codex handles calls of all tools that are not the client's;
// they make no event.
func (b *ResponseBuilder) Item(raw json.RawMessage) []ResponseEvent {
	if b.compaction != nil {
		b.compaction.draft.Item(raw)
		return b.Begin()
	}
	var item modelItem
	if unmarshal(raw, &item) != nil || item.ID != "" && b.finished[item.ID] {
		return nil
	}
	switch item.Type {
	case itemMessage:
		return b.finishMessage(item)
	case itemReasoning:
		return b.finishReasoning(item)
	case itemFunction:
		tool, ok := b.tools[item.Name]
		if !ok || b.single && b.called {
			return nil
		}
		return b.call(tool, item)
	default:
		return nil
	}
}

// HasOutput reports whether there is a message or a call.
func (b *ResponseBuilder) HasOutput() bool { return b.hasOutput }

// Refuse adds a message of the model that refuses to answer, in these words.
func (b *ResponseBuilder) Refuse(words string) []ResponseEvent {
	events := append(b.Begin(), b.closeItem(StatusCompleted)...)
	b.open = &openItem{
		OutputItem: OutputItem{Type: itemMessage, ID: b.newID("msg_"),
			Status: StatusInProgress}, index: len(b.response.Output),
	}
	events = append(events, b.itemEvent("response.output_item.added"))
	b.open.Refusal = &words
	for _, kind := range []string{"response.content_part.added", "response.refusal.delta", "response.refusal.done",
		"response.content_part.done"} {
		e := b.itemIDEvent(kind)
		e.ContentIndex = new(int)
		switch kind {
		case "response.content_part.added":
			e.Part = refusalPart{Type: "refusal"}
		case "response.refusal.delta":
			e.Delta = &words
		case "response.refusal.done":
			e.Refusal = &words
		default:
			e.Part = refusalPart{"refusal", words}
		}
		events = append(events, e)
	}
	return append(events, b.finishItem(StatusCompleted))
}

// End ends the response at the end of a turn, for a finish reason of chat completions.
func (b *ResponseBuilder) End(finish string, usage *Usage, at int64) []ResponseEvent {
	b.response.Usage = responseUsage(usage)
	switch finish {
	case FinishLength:
		return b.endEarly(StatusIncomplete, "max_output_tokens")
	case FinishContentFilter:
		return b.endEarly(StatusIncomplete, "content_filter")
	}
	events := append(b.Begin(), b.closeItem(StatusCompleted)...)
	b.response.Status, b.response.CompletedAt = StatusCompleted, &at
	return append(events, b.responseEvent("response.completed"))
}

// TakeBack takes back the last event of End, which was not sent: the response can fail after it.
func (b *ResponseBuilder) TakeBack() {
	b.sequence--
	b.response.Status, b.response.CompletedAt, b.response.IncompleteDetails = StatusInProgress, nil, nil
}

// Cancel ends a response that a client has cancelled. OpenAI has no event for that.
func (b *ResponseBuilder) Cancel(usage *Usage) []ResponseEvent {
	b.response.Usage = responseUsage(usage)
	return b.endEarly(StatusCancelled, "")
}

// Fail ends the response by an error. alert puts an event error before response.failed, which clients of server-sent
// events raise. On a WebSocket error is an end of its own: a client would take response.failed for the next response's.
func (b *ResponseBuilder) Fail(err *Error, usage *Usage, alert bool) []ResponseEvent {
	events := append(b.Begin(), b.closeItem(StatusIncomplete)...)
	failure := failureOf(err)
	if alert {
		events = append(events, b.errorEvent(err, failure.Code))
	}
	b.response.Usage = responseUsage(usage)
	b.response.Status, b.response.Error = StatusFailed, failure
	return append(events, b.responseEvent("response.failed"))
}

func (b *ResponseBuilder) endEarly(status, reason string) []ResponseEvent {
	events := append(b.Begin(), b.closeItem(StatusIncomplete)...)
	b.response.Status = status
	if reason != "" {
		b.response.IncompleteDetails = &Incomplete{reason}
	}
	return append(events, b.responseEvent("response.incomplete"))
}

// errorEvent has the error with the code that the response gets.
func (b *ResponseBuilder) errorEvent(err *Error, code string) ResponseEvent {
	e, body := b.event("error"), err.body()
	body.Code = code
	e.errorFields = &errorFields{Code: code, Message: err.Message, Param: body.Param, Error: body}
	return e
}

// codeQuota is, like CodeContextLength, a code of OpenAI that the reference omits for responses. The codex CLI
// recognises by them that the conversation is too long, and that another attempt is in vain.
const codeQuota = "insufficient_quota"

// failureOf maps an error to the few codes of responses.
func failureOf(err *Error) *ResponseFailure {
	code := "server_error"
	switch {
	case err.Code == CodeContextLength:
		code = CodeContextLength
	case err.Type == TypeQuota:
		code = codeQuota
	case err.Type == TypeRateLimit:
		code = "rate_limit_exceeded"
	case err.Type == TypeInvalidRequest:
		code = "invalid_prompt"
	}
	return &ResponseFailure{Code: code, Message: err.Message}
}

// modelItem is an item as the model produced it.
type modelItem struct {
	Type      string        `json:"type"`
	ID        string        `json:"id"`
	Content   []contentPart `json:"content"`
	Summary   []summaryPart `json:"summary"`
	Encrypted string        `json:"encrypted_content"`
	Name      string        `json:"name"`
	Arguments string        `json:"arguments"`
	CallID    string        `json:"call_id"`
}

// event is the next event.
func (b *ResponseBuilder) event(kind string) ResponseEvent {
	e := ResponseEvent{Type: kind, SequenceNumber: b.sequence}
	b.sequence++
	return e
}

// responseEvent is an event with the current response.
func (b *ResponseBuilder) responseEvent(kind string) ResponseEvent {
	e, r := b.event(kind), b.Response()
	e.Response = &r
	return e
}

// itemIDEvent is an event that names the open item.
func (b *ResponseBuilder) itemIDEvent(kind string) ResponseEvent {
	e := b.event(kind)
	e.ItemID, e.OutputIndex = b.open.ID, new(b.open.index)
	return e
}

// itemEvent is an event that contains the open item.
func (b *ResponseBuilder) itemEvent(kind string) ResponseEvent {
	e, item := b.event(kind), b.open.OutputItem
	e.Item, e.OutputIndex = &item, new(b.open.index)
	return e
}
