package appserver

import (
	"encoding/json"
	"fmt"
	"strings"

	"codex-proxy/proxy/appserver/jsonscan"
)

// The notifications of a turn, with the fields in use.
type (
	summaryTextDeltaParams struct {
		ItemID       string `json:"itemId"`
		Delta        string `json:"delta"`
		SummaryIndex int    `json:"summaryIndex"`
	}
	itemCompletedParams struct {
		Item threadItem `json:"item"`
	}
	// threadItem is a reasoning item; the other types are not ours to tell.
	threadItem struct {
		Type    string   `json:"type"`
		ID      string   `json:"id"`
		Summary []string `json:"summary"`
	}
	rawResponseParams struct {
		Usage *Usage `json:"usage"`
	}
	errorParams struct {
		Error     *TurnError `json:"error"`
		WillRetry bool       `json:"willRetry"`
	}
	turnCompletedParams struct {
		Turn turnObject `json:"turn"`
	}
	turnObject struct {
		Status TurnStatus `json:"status"`
		Error  *TurnError `json:"error"`
	}
)

// transcript turns the notifications of one turn into events, so that every
// piece of text is delivered exactly once. It is used by one goroutine.
//
// When codex retries, it starts the response over: deltas begin from zero, under
// the same item id if the upstream gives the same and under a new one if not.
// Text that was delivered cannot be taken back, so the turn fails then. Reasoning
// is only commentary: what follows a retry is left out if some was delivered.
//
// A response that calls tools of the client's ends the turn as soon as it is
// complete: codex goes on only when somebody answers the calls.
type transcript struct {
	tools     map[string]bool // names of the client's tools
	called    bool            // one of them, in the current response
	before    Usage           // of the thread, before this turn
	total     Usage           // of the thread, before the current response
	reasoning map[string]bool // reasoning items with deltas
	textSent  bool            // text or a call was delivered, of the current response
	thought   bool            // reasoning was delivered, of the current response
	muted     bool            // reasoning is left out, until this response ends
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

// take returns the events of what was in the mailbox.
func (t *transcript) take(m mail) []Event {
	if m.text != nil {
		return t.addText(m.item, string(m.text))
	}
	return t.add(m.Notification)
}

// add returns the events of n: mostly one, sometimes none. A notification that
// does not parse fails the turn: to skip it could be to lose text silently.
func (t *transcript) add(n Notification) []Event {
	switch n.Method {
	case textDelta: // the mailbox has taken the text out of those that are whole
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
	case "rawResponse/completed":
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
	return failed(&TurnError{Message: fmt.Sprintf("cannot decode %s: %s", n.Method, err)})
}

func failed(err *TurnError) []Event { return []Event{TurnCompleted{TurnFailed, err}} }

func (t *transcript) addText(id, text string) []Event {
	if text == "" {
		return nil
	}
	t.textSent = true
	return []Event{TextDelta{id, text}}
}

func (t *transcript) addReasoning(id string, part int, text string) []Event {
	if text == "" || t.muted {
		return nil
	}
	t.thought = true
	return []Event{ReasoningDelta{id, part, text}}
}

// finish delivers the summary of reasoning that has not come as deltas. Messages
// the mailbox has seen to.
func (t *transcript) finish(item threadItem) (events []Event) {
	if item.Type != "reasoning" {
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

// rawItem passes on what the model has made. Codex also reports what it has put
// into the thread itself, such as "<turn_aborted>" in the name of the user, and
// the outputs of tools.
func (t *transcript) rawItem(n Notification) []Event {
	item, err := rawItem(n.Params)
	if err != nil {
		return undecodable(n, err)
	}
	var made struct{ kind, role, name string }
	members := jsonscan.Open(item)
	for name, value, ok := members.Next(); ok; name, value, ok = members.Next() {
		into := (*string)(nil)
		switch string(name) {
		case "type":
			into = &made.kind
		case "role":
			into = &made.role
		case "name":
			into = &made.name
		default:
			continue
		}
		s, err := jsonscan.Text(value)
		if err != nil {
			return nil
		}
		*into = string(s)
	}
	switch {
	case members.Err() != nil, made.role != "" && made.role != "assistant", strings.HasSuffix(made.kind, "_output"):
		return nil
	case made.kind == "reasoning" && t.muted:
		return nil
	case made.kind == "function_call" && t.tools[made.name]:
		t.called, t.textSent = true, true
	}
	return []Event{ResponseItem{made.kind, item}}
}

// rawItem is the item in the parameters, verbatim.
func rawItem(params []byte) (item json.RawMessage, err error) {
	members := jsonscan.Open(params)
	for name, value, ok := members.Next(); ok; name, value, ok = members.Next() {
		if string(name) == "item" {
			item = value
		}
	}
	return item, members.Err()
}

// finishResponse ends one response of the model, of which a turn has several when
// codex runs tools in between. The usage of one that has called tools comes to us
// here only: codex updates the thread's when the calls are answered.
func (t *transcript) finishResponse(p rawResponseParams) (events []Event) {
	if t.called {
		if p.Usage != nil {
			events = append(events, UsageUpdated{t.total.plus(*p.Usage, 1).plus(t.before, -1)})
		}
		events = append(events, TurnCompleted{Status: TurnCalledTools})
	}
	t.called, t.textSent, t.thought, t.muted = false, false, false, false
	return events
}

// failure handles the notification error. A final one says nothing that the
// turn/completed behind it does not say.
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
	t.muted = t.muted || t.thought
	return []Event{Retrying{p.Error}}
}

func unexplained() *TurnError {
	return &TurnError{Message: "codex gave no reason"}
}

func complete(p turnCompletedParams) []Event {
	if p.Turn.Status == TurnFailed && p.Turn.Error == nil {
		p.Turn.Error = unexplained()
	}
	return []Event{TurnCompleted{p.Turn.Status, p.Turn.Error}}
}
