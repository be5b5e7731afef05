package remotes

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"codex-proxy/codex/jsonscan"
	"codex-proxy/internal/lazyregexp"
	"codex-proxy/remotes/codexthread"
	"codex-proxy/remotes/turnjournal"
)

// Recorded reports whether RecordRequest wants the requests of a method.
func Recorded(method string) bool {
	_, kind := kinds[method]
	return kind || method == "turn/start" || method == "turn/steer" || method == "turn/interrupt"
}

// kinds are the methods that start something in a thread which looks like a turn, and does not go on after a cut.
var kinds = map[string]string{
	"thread/shellCommand":  "shell",
	"thread/compact/start": "compaction",
	"review/start":         "review",
}

// RecordRequest records a request of a client before it goes to codex. codex reads names exactly: one in other letters
// is another one. It never refuses a request: one that does not parse is codex's to refuse. The request has a
// name of its own, for RecordRefusal.
func (m *Manager) RecordRequest(request, method string, params json.RawMessage) {
	var p struct {
		ThreadID string          `json:"threadId"`
		TurnID   string          `json:"turnId"`
		ClientID string          `json:"clientUserMessageId"`
		Input    json.RawMessage `json:"input"`
	}
	if jsonscan.Unmarshal(params, &p) != nil || !isPlainID(p.ThreadID) || len(p.TurnID) > maxID {
		return
	}
	m.introduced(p.ThreadID)
	now := time.Now()
	m.record(func(s *state) {
		if s.thread(p.ThreadID).hidden || s.full(p.ThreadID) {
			return
		}
		switch method {
		case "turn/start", "turn/steer":
			i := turnjournal.Input{ClientID: p.ClientID, Content: slices.Clone(p.Input), At: now, Request: request}
			if method == "turn/start" {
				i.Settings = settings(params)
			}
			s.asked(p.ThreadID, i, now)
			s.loaded(p.ThreadID, m.opts.Loaded(p.ThreadID))
		case "turn/interrupt":
			s.interrupt(p.ThreadID, p.TurnID, now)
		default:
			s.other(p.ThreadID, kinds[method], now)
		}
	})
	m.while(renewal, renewing)
}

// RecordRefusal records that codex has answered a request with an error.
func (m *Manager) RecordRefusal(request string) {
	known := false
	m.update(func(s *state) { known = s.asks(request) })
	if known { // of most requests there is nothing to write
		m.record(func(s *state) { s.refused(request, time.Now()) })
	}
}

// AwaitSubscribed waits until the manager is subscribed to all threads that run: codex interrupts the turn of a thread
// without subscribers, so a client that leaves must stay until then. It returns when ctx ends at the latest.
func (m *Manager) AwaitSubscribed(ctx context.Context) {
	for {
		var alone bool
		var changed <-chan struct{}
		m.update(func(s *state) { alone, changed = s.alone(), s.changed })
		if !alone {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// The bounds of waits for a new thread: for codex's description of it, which is on its way when a client can name the
// thread, and for its file.
const (
	introduction = 200 * time.Millisecond
	writing      = 5 * time.Second
)

// introduced waits until a new thread can have a turn. It must be known whether it is hidden: a client has such
// threads, too: the TUI asks in one for a title. Recorded as a user's, it would be the last one, and its message would
// be sent again after a cut. And codex must have written its file.
func (m *Manager) introduced(thread string) {
	unknown := func(s *state) bool {
		t := s.threads[thread]
		return (t == nil || !t.known) && createdAfter(thread, s.began)
	}
	if !m.while(introduction, unknown) {
		m.update(func(s *state) { s.thread(thread).known = true }) // as far as it will be
	}
	writeLate(m, thread)
	m.while(writing, func(s *state) bool { t := s.threads[thread]; return t != nil && t.writing })
}

// while waits as long as something is so, and no longer than bound. It reports whether it ended.
func (m *Manager) while(bound time.Duration, so func(*state) bool) (ended bool) {
	late := time.NewTimer(bound)
	defer late.Stop()
	for {
		var wait bool
		var changed <-chan struct{}
		m.update(func(s *state) { wait, changed = so(s), s.changed })
		if !wait {
			return true
		}
		select {
		case <-changed:
		case <-late.C:
			return false
		}
	}
}

// createdAfter reports whether a thread is new.
func createdAfter(thread string, began time.Time) bool {
	at, is := codexthread.Created(thread)
	return is && at.UnixMilli() >= began.UnixMilli()
}

// settings are the parameters of a turn/start besides the message and its thread.
func settings(params json.RawMessage) (all map[string]json.RawMessage) {
	if json.Unmarshal(bytes.Clone(params), &all) != nil {
		return nil
	}
	for _, name := range []string{"threadId", "input", "clientUserMessageId"} {
		delete(all, name)
	}
	maps.DeleteFunc(all, func(_ string, v json.RawMessage) bool { return string(v) == "null" })
	return all
}

// plainID is the form of ids: a client cannot make the turn journal name a thread that codex cannot have.
var plainID = lazyregexp.New(`^[0-9A-Za-z][0-9A-Za-z-]*$`)

func isPlainID(id string) bool { return len(id) <= 128 && plainID.MatchString(id) }

// The bounds of the turn journal's content from clients.
const (
	maxID      = 128
	maxRecords = 256
)

func (s *state) full(thread string) bool {
	return s.journal.Threads[thread] == nil && len(s.journal.Threads) >= maxRecords
}
