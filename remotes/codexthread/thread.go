// Package codexthread has the threads and turns of codex, as codex describes them to the main process of a remote.
package codexthread

import (
	"encoding/json"
	"strconv"
	"time"

	"codex-proxy/codex/turnerror"
)

// The states of a turn, as codex names them.
const (
	InProgress  = "inProgress"
	Interrupted = "interrupted"
	Completed   = "completed"
	// Aborted is the status of a turn with an end that codex wrote into its file itself: its user has interrupted it.
	Aborted = "aborted"
)

// Created returns when a thread was created: its id is a UUIDv7, which begins with its time in milliseconds. It is
// false for an id of another form.
func Created(thread string) (at time.Time, is bool) {
	const digits, dash = 12, 8
	if len(thread) <= digits || thread[dash] != '-' {
		return at, false
	}
	ms, err := strconv.ParseInt(thread[:dash]+thread[dash+1:digits+1], 16, 64)
	return time.UnixMilli(ms), err == nil
}

// Turn is a turn as codex has it.
type Turn struct {
	ID     string           `json:"id"`
	Status string           `json:"status"`
	Items  []Item           `json:"items"`
	Error  *turnerror.Error `json:"error"`
}

// Item is a thread's item, as far as the manager reads it.
type Item struct {
	Type     string          `json:"type"`
	ClientID string          `json:"clientId"`
	Content  json.RawMessage `json:"content"`
	Text     string          `json:"text"`
}

// Message is an item of the type userMessage.
type Message struct {
	ClientID string
	Content  json.RawMessage
}

// Messages are the messages of the user in the turn.
func (t Turn) Messages() (list []Message) {
	for _, i := range t.Items {
		if i.Type == "userMessage" {
			list = append(list, Message{i.ClientID, i.Content})
		}
	}
	return list
}

// Thread is a thread as codex describes it.
type Thread struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Preview   string `json:"preview"`
	Updated   int64  `json:"updatedAt"` // seconds since 1970
	Path      string `json:"path"`
	Forked    string `json:"forkedFromId"`
	Ephemeral bool   `json:"ephemeral"`
	Parent    string `json:"parentThreadId"`
	Status    Status `json:"status"`
}

// Hidden means that the thread belongs to none of the users: codex makes one for a title, and others for agents, which
// lose their work with the turn that started them.
func (t Thread) Hidden() bool { return t.Ephemeral || t.Parent != "" }

// Status is the state of a thread.
type Status struct {
	Type  string   `json:"type"`
	Flags []string `json:"activeFlags"`
}

// Active means that the thread runs a turn.
func (s Status) Active() bool { return s.Type == "active" }

// Waiting means that the turn waits for a user: an approval, or an answer to a question.
func (s Status) Waiting() bool { return s.Active() && len(s.Flags) > 0 }
