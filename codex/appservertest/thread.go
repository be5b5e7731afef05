package appservertest

import (
	"context"
	"encoding/json"
	"sync"
)

// Request is the request of a turn, from thread/start, thread/inject_items and turn/start.
type Request struct {
	Model            string
	BaseInstructions *string
	ServiceTier      string
	Config           map[string]any
	DynamicTools     []Tool
	Environments     []Environment
	Items            []json.RawMessage `json:"-"`
	Effort           string            `json:"-"`
	Summary          string            `json:"-"`
	OutputSchema     json.RawMessage   `json:"-"`
}

// Environment is one of thread/start's environments, with what environment/add has of it.
type Environment struct {
	ID    string `json:"environmentId"`
	URL   string `json:"execServerUrl"`
	Token string `json:"authBearerToken"`
	Dir   string `json:"cwd"`
}

// Tool is one of thread/start's dynamicTools.
type Tool struct {
	Type, Name, Description string
	InputSchema             json.RawMessage
}

// Prompt returns the text of the last user message.
func (r Request) Prompt() string {
	for i := len(r.Items) - 1; i >= 0; i-- {
		var item struct {
			Role    string
			Content []struct{ Text string }
		}
		if json.Unmarshal(r.Items[i], &item) != nil || item.Role != "user" {
			continue
		}
		text := ""
		for _, part := range item.Content {
			text += part.Text
		}
		return text
	}
	return ""
}

// thread is a loaded thread. request is guarded by the peer's lock.
type thread struct {
	id         string
	originator string
	request    Request

	mu     sync.Mutex
	turn   string
	cancel context.CancelFunc
	usage  Usage // of all turns so far
}

// used adds to the thread's usage and returns the total.
func (th *thread) used(u Usage) Usage {
	th.mu.Lock()
	defer th.mu.Unlock()
	th.usage = Usage{th.usage.Input + u.Input, th.usage.Cached + u.Cached, th.usage.Output + u.Output,
		th.usage.Reasoning + u.Reasoning}
	return th.usage
}

func (th *thread) running(turnID string, cancel context.CancelFunc) {
	th.mu.Lock()
	defer th.mu.Unlock()
	th.turn, th.cancel = turnID, cancel
}

func (th *thread) idle() {
	th.mu.Lock()
	defer th.mu.Unlock()
	th.turn, th.cancel = "", nil
}

// interrupt cancels the running turn; an empty id means any.
func (th *thread) interrupt(turnID string) bool {
	th.mu.Lock()
	defer th.mu.Unlock()
	if th.cancel == nil || turnID != "" && turnID != th.turn {
		return false
	}
	th.cancel()
	return true
}
