package transcript

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
)

// The kinds of questions.
const (
	command = "command"
	change  = "change"
	other   = "other"
)

// decisions are those that Approve takes, in codex's words.
var decisions = []string{"accept", "acceptForSession", decline}

const decline = "decline"

// asked is a request of codex.
type asked struct {
	id     json.RawMessage
	thread string
	item   string // that the question is about
	Question
}

// shown are the fields of a question that people see, or that grant nothing. Any other field may widen an approval: a
// person has to see it, in a terminal.
var shown = []string{
	"threadId", "turnId", "itemId", "approvalId", "startedAtMs", "environmentId", "kind", "reason", "command", "cwd",
	"commandActions", "availableDecisions", "proposedExecpolicyAmendment", "proposedNetworkPolicyAmendments",
}

// questions are the kinds of codex's requests that ask a person. Calls of tools and of clocks are for terminals.
var questions = map[string]string{
	"item/commandExecution/requestApproval": command, "item/fileChange/requestApproval": change,
	"item/permissions/requestApproval": other, "item/tool/requestUserInput": other,
	"mcpServer/elicitation/request": other,
}

// approval has the fields of a request that are used here.
type approval struct {
	Thread    string            `json:"threadId"`
	Item      string            `json:"itemId"`
	Kind      string            `json:"kind"`
	Reason    string            `json:"reason"`
	Command   string            `json:"command"`
	Directory string            `json:"cwd"`
	Available []json.RawMessage `json:"availableDecisions"`
}

// askedOf is a request of codex as a question; false for any other request.
func askedOf(method string, id, params json.RawMessage) (asked, bool) {
	var p approval
	var fields map[string]json.RawMessage
	kind := questions[method]
	if kind == "" || json.Unmarshal(params, &p) != nil || json.Unmarshal(params, &fields) != nil {
		return asked{}, false
	}
	return asked{id: id, thread: p.Thread, item: p.Item, Question: Question{
		ID: idOf(method, id, fields), Kind: kind, Text: head(p.Command, maxText), Reason: head(p.Reason, maxText),
		Directory: head(p.Directory, maxText), Decisions: p.decisions(kind, fields),
	}}, true
}

// decisions are those for a person with this question alone: nothing but a decline, if an approval would grant more.
func (p approval) decisions(kind string, fields map[string]json.RawMessage) []string {
	hidden := len(p.Directory) > maxText
	if kind == command {
		hidden = hidden || p.Command == "" || len(p.Command) > maxText || p.Kind != "" && p.Kind != command
	}
	for name, value := range fields {
		hidden = hidden || string(value) != "null" && !slices.Contains(shown, name)
	}
	switch {
	case kind == other:
		return []string{}
	case hidden:
		return []string{decline}
	}
	return available(p.Available)
}

// idOf names a question by all of its content: items have several, and codex counts requests anew when it starts.
func idOf(method string, id json.RawMessage, content any) string {
	text, _ := json.Marshal([]any{method, id, content}) // they were JSON
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// about is the question with the changes of files that it is about: codex has them in the item alone. Nobody approves
// changes that are not shown as a whole.
func (a asked) about(changes string) Question {
	q := a.Question
	if q.Kind != change {
		return q
	}
	q.Text = head(changes, maxText)
	if changes == "" || len(changes) > maxText {
		q.Decisions = []string{decline}
	}
	q.ID = idOf(q.ID, a.id, changes)
	return q
}

// available are the decisions that codex offers, without an offer all. It takes a decline always.
func available(offered []json.RawMessage) []string {
	if offered == nil {
		return decisions
	}
	list := []string{}
	for _, raw := range offered {
		var d string
		if json.Unmarshal(raw, &d) == nil && slices.Contains(decisions, d) && d != decline {
			list = append(list, d)
		}
	}
	return append(list, decline)
}

// resolvedBy is the request that a notification reports as answered, and its thread.
func resolvedBy(method string, params json.RawMessage) (id, thread string) {
	var p struct {
		Thread  string          `json:"threadId"`
		Request json.RawMessage `json:"requestId"`
	}
	if method != "serverRequest/resolved" || json.Unmarshal(params, &p) != nil {
		return "", ""
	}
	return string(p.Request), p.Thread
}
