package appserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"codex-proxy/codex/delivery"
	"codex-proxy/codex/jsonscan"
	"codex-proxy/codex/turnerror"
)

// kindReasoning is the type of an item with reasoning, in codex's own items and in the model's.
const kindReasoning = "reasoning"

// responseCompleted is the notification about the end of a response.
const responseCompleted = "rawResponse/completed"

// transcript turns the notifications of one turn into events, so that every piece of text is delivered exactly once.
// One goroutine uses it.
//
// When codex retries, it restarts the response: deltas begin from zero, under the same item id if the upstream sends
// the same and under a new one if not. Delivered text cannot be withdrawn, so the turn fails then. Reasoning is only
// commentary: if some was delivered, the reasoning after a retry is dropped.
//
// A response that calls tools of the client ends the turn as soon as it is complete: codex continues only when the
// calls are answered.
type transcript struct {
	tools     map[string]bool // names of the client's tools
	called    bool            // the current response has called one of them
	before    Usage           // of the thread, before this turn
	total     Usage           // of the thread, before the current response
	reasoning map[string]bool // reasoning items with deltas
	textSent  bool            // text or a call of the current response was delivered
	reasoned  bool            // reasoning of the current response was delivered
	message   string          // the item of the last delivered text
	thought   string          // the item of the last delivered reasoning
	muted     bool            // reasoning is dropped until this response ends
}

func newTranscript(tools []Tool) transcript {
	t := transcript{}
	if len(tools) > 0 {
		t.tools = make(map[string]bool, len(tools))
	}
	for _, tool := range tools {
		t.tools[tool.Name] = true
	}
	return t
}

// eventsOf returns the events of an entry of the queue.
func (t *transcript) eventsOf(e delivery.Entry) []Event {
	if e.Text != nil {
		return t.addText(e.Item, string(e.Text))
	}
	return t.add(Notification{e.Method, e.Params})
}

// add returns the events of n: mostly one, sometimes none. A notification that does not parse fails the turn: skipping
// it could lose text silently.
func (t *transcript) add(n Notification) []Event {
	switch n.Method {
	case delivery.TextDelta: // the queue has extracted the text of all that parse
		return undecodable(n, jsonscan.ErrSyntax)
	case "item/reasoning/summaryTextDelta":
		return translate(n, func(p summaryTextDeltaParams) []Event {
			if t.reasoning == nil {
				t.reasoning = map[string]bool{}
			}
			t.reasoning[p.ItemID] = true
			return t.addReasoning(p.ItemID, p.SummaryIndex, p.Delta)
		})
	case "item/completed":
		return translate(n, func(p itemCompletedParams) []Event { return t.finish(p.Item) })
	case "rawResponseItem/completed":
		return t.rawItem(n)
	case responseCompleted:
		return translate(n, t.finishResponse)
	case "thread/tokenUsage/updated":
		return translate(n, func(p tokenUsageParams) []Event {
			t.total = p.TokenUsage.Total
			return []Event{UsageUpdated{t.total.plus(t.before, -1)}}
		})
	case "error":
		return translate(n, t.failure)
	case "turn/completed":
		return translate(n, complete)
	}
	return nil
}

func translate[P any](n Notification, f func(P) []Event) []Event {
	var p P
	if err := jsonscan.Unmarshal(n.Params, &p); err != nil {
		return undecodable(n, err)
	}
	return f(p)
}

func undecodable(n Notification, err error) []Event {
	return failed(&turnerror.Error{Message: fmt.Sprintf("cannot decode %s: %s", n.Method, err)})
}

func failed(err *turnerror.Error) []Event { return []Event{TurnCompleted{TurnFailed, err}} }

func (t *transcript) addText(id, text string) []Event {
	if text == "" {
		return nil
	}
	t.textSent = true
	t.message = id
	return []Event{TextDelta{id, text}}
}

func (t *transcript) addReasoning(id string, part int, text string) []Event {
	if text == "" || t.muted {
		return nil
	}
	t.reasoned = true
	t.thought = id
	return []Event{ReasoningDelta{id, part, text}}
}

// finish delivers the summary of reasoning that was not sent as deltas. The queue handles messages.
func (t *transcript) finish(item threadItem) (events []Event) {
	if item.Type != kindReasoning {
		return nil
	}
	if t.reasoning[item.ID] {
		delete(t.reasoning, item.ID)
		return nil
	}
	for i, text := range item.Summary {
		events = append(events, t.addReasoning(item.ID, i, text)...)
	}
	return events
}

// rawItem delivers the items that the model has produced. Codex also reports the items that it adds to the thread
// itself, such as "<turn_aborted>" in the name of the user, and the outputs of tools.
func (t *transcript) rawItem(n Notification) []Event {
	item, err := itemOf(n.Params)
	if err != nil {
		return undecodable(n, err)
	}
	var produced struct{ kind, role, name, id string }
	members := jsonscan.Open(item)
	for name, value, ok := members.Next(); ok; name, value, ok = members.Next() {
		into := (*string)(nil)
		switch string(name) {
		case "type":
			into = &produced.kind
		case "role":
			into = &produced.role
		case "name":
			into = &produced.name
		case "id":
			into = &produced.id
		default:
			continue
		}
		s, err := jsonscan.Text(value)
		if err != nil && into != &produced.id {
			return nil
		}
		*into = string(s)
	}
	switch {
	case members.Err() != nil, produced.role != "" &&
		produced.role != "assistant", strings.HasSuffix(produced.kind, "_output"):
		return nil
	case produced.kind == kindReasoning && t.muted:
		return nil
	case produced.kind == "function_call" && t.tools[produced.name]:
		t.called, t.textSent = true, true
	}
	if produced.id == "" {
		item = t.identified(produced.kind, item)
	}
	return []Event{ResponseItem{produced.kind, item}}
}

// identified adds the id to an item: codex 0.140 leaves it out, and sends the item after what it has delivered of it.
func (t *transcript) identified(kind string, item json.RawMessage) json.RawMessage {
	of := map[string]*string{"message": &t.message, kindReasoning: &t.thought}[kind]
	if of == nil || *of == "" {
		return item
	}
	id, _ := json.Marshal(*of) // a string has no errors
	*of = ""
	return slices.Concat([]byte(`{"id":`), id, []byte{','}, bytes.TrimLeft(item, " \t\r\n{"))
}

// itemOf is the item in the parameters, verbatim.
func itemOf(params []byte) (item json.RawMessage, err error) {
	members := jsonscan.Open(params)
	for name, value, ok := members.Next(); ok; name, value, ok = members.Next() {
		if string(name) == "item" {
			item = value
		}
	}
	return item, members.Err()
}

// finishResponse ends one response of the model; a turn has several when codex runs tools in between. Only here does
// the usage of a response that has called tools arrive: codex updates the thread's usage when the calls are answered.
func (t *transcript) finishResponse(p rawResponseParams) (events []Event) {
	if t.called {
		if p.Usage != nil {
			events = append(events, UsageUpdated{t.total.plus(*p.Usage, 1).plus(t.before, -1)})
		}
		events = append(events, TurnCompleted{Status: TurnCalledTools})
	}
	t.called, t.textSent, t.reasoned, t.muted = false, false, false, false
	return events
}

// failure handles the notification error. After a final error the turn/completed repeats its content.
func (t *transcript) failure(p errorParams) []Event {
	if !p.WillRetry {
		return nil
	}
	if p.Error == nil {
		p.Error = unexplained()
	}
	if t.textSent {
		return failed(p.Error)
	}
	clear(t.reasoning)
	t.muted = t.muted || t.reasoned
	return []Event{Retrying{p.Error}}
}

func unexplained() *turnerror.Error {
	return &turnerror.Error{Message: "codex gave no reason"}
}

func complete(p turnCompletedParams) []Event {
	if p.Turn.Status == TurnFailed && p.Turn.Error == nil {
		p.Turn.Error = unexplained()
	}
	return []Event{TurnCompleted{p.Turn.Status, p.Turn.Error}}
}
