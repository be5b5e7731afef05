package remotes

import (
	"context"
	"encoding/json"
	"time"

	"codex-proxy/codex/wire"
)

// toolCall is a call of a dynamic tool that has no answer yet. Clients that are attached answer it; codex sends it to
// all.
type toolCall struct {
	id   json.RawMessage
	tool string
	at   time.Time
}

// The time that clients have to answer a call of a tool: those that come back after a cut, and those that are attached,
// of which none may know the tool.
const (
	toolAlone    = 15 * time.Second
	toolAttached = 5 * time.Minute
)

// request answers codex's question for another login, and records a call of a tool. All other requests are for users:
// approvals and questions wait for them.
func (l reports) request(_ context.Context, msg message) {
	switch msg.method {
	case "item/tool/call":
	case "account/chatgptAuthTokens/refresh":
		logins(l).refresh(msg)
		return
	default:
		return
	}
	var p struct {
		ThreadID string `json:"threadId"`
		Tool     string `json:"tool"`
	}
	if json.Unmarshal(msg.params, &p) != nil {
		return
	}
	l.update(func(s *state) {
		t := s.thread(p.ThreadID)
		if t.calls == nil {
			t.calls = map[string]toolCall{}
		}
		t.calls[string(msg.id)] = toolCall{msg.id, p.Tool, time.Now()}
	})
}

// overdue removes the calls that the manager has to answer: nobody else will.
func (s *state) overdue(now time.Time) (calls []toolCall) {
	bound, since := toolAttached, time.Time{}
	if s.nobody() {
		bound, since = toolAlone, s.left
	}
	for _, t := range s.threads {
		for id, c := range t.calls {
			if now.Sub(latest(c.at, since)) >= bound {
				calls = append(calls, c)
				delete(t.calls, id)
			}
		}
	}
	return calls
}

// answerTools answers the calls that are overdue, so that their turns go on.
func (l reports) answerTools() {
	var calls []toolCall
	l.update(func(s *state) { calls = s.overdue(time.Now()) })
	for _, c := range calls {
		text := "The user's terminal is detached, so the tool " + c.tool + " cannot run now. Go on without it."
		if l.c.Reply(c.id, wire.ToolAnswer{ContentItems: []wire.ToolContent{{Type: "inputText", Text: text}}}) == nil {
			l.emit(Event{Kind: ToolAnswered, Detail: c.tool})
		}
	}
}
