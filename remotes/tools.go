package remotes

import (
	"context"
	"encoding/json"
	"time"
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
func (l *link) request(_ context.Context, m message) {
	switch m.method {
	case "item/tool/call":
	case "account/chatgptAuthTokens/refresh":
		l.refresh(m)
		return
	default:
		return
	}
	var p struct {
		ThreadID string `json:"threadId"`
		Tool     string `json:"tool"`
	}
	if json.Unmarshal(m.params, &p) != nil {
		return
	}
	l.update(func(s *state) {
		t := s.thread(p.ThreadID)
		if t.calls == nil {
			t.calls = map[string]toolCall{}
		}
		t.calls[string(m.id)] = toolCall{m.id, p.Tool, time.Now()}
	})
}

// overdue removes the calls that the keeper has to answer: nobody else will.
func (s *state) overdue(now time.Time) (calls []toolCall) {
	bound, since := toolAttached, time.Time{}
	if s.owners() == 0 {
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

type toolAnswer struct {
	Content []toolContent `json:"contentItems"`
	Success bool          `json:"success"`
}

type toolContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// answerTools answers the calls that are overdue, so that their turns go on.
func (l *link) answerTools() {
	var calls []toolCall
	l.update(func(s *state) { calls = s.overdue(time.Now()) })
	for _, c := range calls {
		text := "The user's terminal is detached, so the tool " + c.tool + " cannot run now. Go on without it."
		if l.c.Reply(c.id, toolAnswer{Content: []toolContent{{"inputText", text}}}) == nil {
			l.emit(Event{Kind: ToolAnswered, Detail: c.tool})
		}
	}
}
