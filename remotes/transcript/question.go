package transcript

import (
	"cmp"
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

// questionOf is a request of codex as a question, and its thread. Calls of tools and of clocks are for terminals.
func questionOf(method string, params json.RawMessage) (q Question, thread string) {
	var p struct {
		Thread    string            `json:"threadId"`
		Item      string            `json:"itemId"`
		Approval  string            `json:"approvalId"`
		Reason    string            `json:"reason"`
		Command   string            `json:"command"`
		Directory string            `json:"cwd"`
		Root      string            `json:"grantRoot"`
		Available []json.RawMessage `json:"availableDecisions"`
	}
	if json.Unmarshal(params, &p) != nil {
		return Question{}, ""
	}
	q = Question{ID: cmp.Or(p.Approval, p.Item), Reason: head(p.Reason, maxText), Directory: head(p.Directory, maxText)}
	switch method {
	case "item/commandExecution/requestApproval":
		q.Kind, q.Text, q.Decisions = command, head(p.Command, maxText), available(p.Available)
		if len(p.Command) > maxText { // nobody approves the part that is not shown
			q.Decisions = []string{decline}
		}
	case "item/fileChange/requestApproval":
		q.Kind, q.Text, q.Decisions = change, head(p.Root, maxText), decisions
	case "item/permissions/requestApproval", "item/tool/requestUserInput", "mcpServer/elicitation/request":
		q.Kind, q.ID, q.Decisions = other, cmp.Or(q.ID, method), []string{}
	default:
		return Question{}, ""
	}
	return q, p.Thread
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
