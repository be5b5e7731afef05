package openai

import (
	"encoding/json"
	"strings"
)

// ResponseBuilder makes the events of a streamed response, and the response
// itself, out of what a turn produces. It is for one goroutine.
//
// The first event of the turn brings response.created and response.in_progress
// with it, and every item begins with what belongs before it, so that the events
// are in order whatever comes. What was streamed is what the final response says.
type ResponseBuilder struct {
	response  Response
	tools     map[string]ClientTool // by the name that the worker knows
	newID     func(prefix string) string
	mark      string
	single    bool // the client takes one call
	summary   bool // the client asked for a summary of the reasoning
	encrypted bool // and for the reasoning itself, to take it back

	sequence int
	open     *openItem
	said     bool            // there is a message or a call
	called   bool            // a call
	finished map[string]bool // the model's ids of items that are done
	kept     []OutputItem    // the output with all that the next turn needs
}

// openItem is an item that still grows. Source is the model's id of it.
type openItem struct {
	OutputItem
	source string
	index  int
	text   strings.Builder // of the message, or of the open part of the summary
	part   int             // the open part of the summary; -1: none is
	made   int             // the model's number of it
}

// NewResponseBuilder begins the response of req, which is blank apart from what
// req has asked for. mark is put in front of encrypted reasoning, and stays there
// wherever that is copied to. newID makes the ids of items.
func NewResponseBuilder(req *ResponseRequest, blank Response, mark string,
	newID func(prefix string) string) *ResponseBuilder {
	return &ResponseBuilder{
		response: blank, mark: mark, tools: req.Tools.byWireName(), newID: newID,
		single: req.Tools.Single, summary: req.Reasoning.Summary != "", encrypted: req.Encrypted,
		finished: map[string]bool{},
	}
}

// Response is the response as it stands.
func (b *ResponseBuilder) Response() Response {
	r := b.response
	r.Output = append([]OutputItem{}, r.Output...)
	return r
}

// Kept is the output so far with the encrypted reasoning in it, whether the
// client asked for that or not.
func (b *ResponseBuilder) Kept() []OutputItem { return b.kept }

// Begin is what comes before everything else; nothing if it has come.
func (b *ResponseBuilder) Begin() []ResponseEvent {
	if b.sequence > 0 {
		return nil
	}
	return []ResponseEvent{b.whole("response.created"), b.whole("response.in_progress")}
}

// Text adds to the message that the model calls source.
func (b *ResponseBuilder) Text(source, delta string) []ResponseEvent {
	events := b.Begin()
	if b.finished[source] {
		return events
	}
	events = append(events, b.grow(itemMessage, source)...)
	b.open.text.WriteString(delta)
	e := b.at("response.output_text.delta")
	e.ContentIndex, e.Delta, e.Logprobs = new(int), &delta, &[]struct{}{}
	return append(events, e)
}

// Reasoning adds to one part of the summary of the reasoning that the model
// calls source.
func (b *ResponseBuilder) Reasoning(source string, part int, delta string) []ResponseEvent {
	events := b.Begin()
	if !b.summary || b.finished[source] {
		return events
	}
	events = append(events, b.grow(itemReasoning, source)...)
	events = append(events, b.openPart(part)...)
	b.open.text.WriteString(delta)
	e := b.at("response.reasoning_summary_text.delta")
	e.SummaryIndex, e.Delta = new(b.open.part), &delta
	return append(events, e)
}

// Item finishes an item with the model's own word on it. Calls of tools that are
// not the client's are codex's business, and nothing comes of them.
func (b *ResponseBuilder) Item(raw json.RawMessage) []ResponseEvent {
	var made madeItem
	if unmarshal(raw, &made) != nil || made.ID != "" && b.finished[made.ID] {
		return nil
	}
	switch made.Type {
	case itemMessage:
		return b.finishMessage(made)
	case itemReasoning:
		return b.finishReasoning(made)
	case itemFunction:
		tool, ok := b.tools[made.Name]
		if !ok || b.single && b.called {
			return nil
		}
		return b.call(tool, made)
	default:
		return nil
	}
}

// Silent reports whether there is neither a message nor a call.
func (b *ResponseBuilder) Silent() bool { return !b.said }

// Refuse is a message of the model's that refuses to answer, in these words.
func (b *ResponseBuilder) Refuse(words string) []ResponseEvent {
	events := append(b.Begin(), b.closeItem(StatusCompleted)...)
	b.open = &openItem{
		OutputItem: OutputItem{Type: itemMessage, ID: b.newID("msg_"),
			Status: StatusInProgress}, index: len(b.response.Output),
	}
	events = append(events, b.item("response.output_item.added"))
	b.open.Refusal = &words
	for _, kind := range []string{"response.content_part.added", "response.refusal.delta", "response.refusal.done",
		"response.content_part.done"} {
		e := b.at(kind)
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
	return append(events, b.done(StatusCompleted))
}

// End is the end of a turn, for the reason that chat completions would name.
func (b *ResponseBuilder) End(finish string, usage *Usage, at int64) []ResponseEvent {
	b.response.Usage = responseUsage(usage)
	switch finish {
	case FinishLength:
		return b.cut(StatusIncomplete, "max_output_tokens")
	case FinishContentFilter:
		return b.cut(StatusIncomplete, "content_filter")
	}
	events := append(b.Begin(), b.closeItem(StatusCompleted)...)
	b.response.Status, b.response.CompletedAt = StatusCompleted, &at
	return append(events, b.whole("response.completed"))
}

// Cancel is the end of a response that a client has cancelled. OpenAI has no
// event of its own for it.
func (b *ResponseBuilder) Cancel(usage *Usage) []ResponseEvent {
	b.response.Usage = responseUsage(usage)
	return b.cut(StatusCancelled, "")
}

// Fail is the end of a response by an error.
func (b *ResponseBuilder) Fail(err *Error, usage *Usage) []ResponseEvent {
	events := append(b.Begin(), b.closeItem(StatusIncomplete)...)
	b.response.Usage = responseUsage(usage)
	b.response.Status, b.response.Error = StatusFailed, failureOf(err)
	return append(events, b.whole("response.failed"))
}

func (b *ResponseBuilder) cut(status, reason string) []ResponseEvent {
	events := append(b.Begin(), b.closeItem(StatusIncomplete)...)
	b.response.Status = status
	if reason != "" {
		b.response.IncompleteDetails = &Incomplete{reason}
	}
	return append(events, b.whole("response.incomplete"))
}

// codeContextLength is a code of OpenAI's that the reference leaves out for
// responses. The codex CLI knows by it that the conversation is too long.
const codeContextLength = "context_length_exceeded"

// failureOf puts an error into the few codes that there are for responses.
func failureOf(err *Error) *ResponseFailure {
	code := "server_error"
	switch {
	case err.Code == codeContextLength:
		code = codeContextLength
	case err.Type == TypeQuota, err.Type == TypeRateLimit:
		code = "rate_limit_exceeded"
	case err.Type == TypeInvalidRequest:
		code = "invalid_prompt"
	}
	return &ResponseFailure{Code: code, Message: err.Message}
}

// madeItem is an item as the model has made it.
type madeItem struct {
	Type      string        `json:"type"`
	ID        string        `json:"id"`
	Content   []contentPart `json:"content"`
	Summary   []summaryPart `json:"summary"`
	Encrypted string        `json:"encrypted_content"`
	Name      string        `json:"name"`
	Arguments string        `json:"arguments"`
	CallID    string        `json:"call_id"`
}

// event is a next event.
func (b *ResponseBuilder) event(kind string) ResponseEvent {
	e := ResponseEvent{Type: kind, SequenceNumber: b.sequence}
	b.sequence++
	return e
}

// whole is an event with the response as it stands.
func (b *ResponseBuilder) whole(kind string) ResponseEvent {
	e, r := b.event(kind), b.Response()
	e.Response = &r
	return e
}

// at is an event of the open item.
func (b *ResponseBuilder) at(kind string) ResponseEvent {
	e := b.event(kind)
	e.ItemID, e.OutputIndex = b.open.ID, new(b.open.index)
	return e
}

// item is an event that holds the open item.
func (b *ResponseBuilder) item(kind string) ResponseEvent {
	e, item := b.event(kind), b.open.OutputItem
	e.Item, e.OutputIndex = &item, new(b.open.index)
	return e
}
