package remotes

import (
	"context"
	"encoding/json"
	"strings"
	"time"
	"unicode"

	"codex-proxy/codex/rpc"
	"codex-proxy/codex/wire"
	"codex-proxy/remotes/codexthread"
)

// handle acts on one request or notification of codex. The inbox calls it in their order.
func (l reports) handle(ctx context.Context, msg message) {
	if len(msg.id) > 0 {
		l.request(ctx, msg)
		return
	}
	var p struct {
		ThreadID  string             `json:"threadId"`
		TurnID    string             `json:"turnId"`
		Thread    codexthread.Thread `json:"thread"`
		Status    codexthread.Status `json:"status"`
		Turn      codexthread.Turn   `json:"turn"`
		Item      codexthread.Item   `json:"item"`
		RequestID json.RawMessage    `json:"requestId"`
		Success   bool               `json:"success"` // of a login
		Error     json.RawMessage    `json:"error"`   // of a login, or of a turn
	}
	if err := json.Unmarshal(msg.params, &p); err != nil {
		l.opts.Logger.Warn("codex sent a notification that does not parse", "method", msg.method, "error", err)
		return
	}
	switch msg.method {
	case "thread/started":
		l.introduce(p.Thread)
		l.follow(ctx, p.Thread.ID, p.Thread.Status)
	case "thread/status/changed":
		l.follow(ctx, p.ThreadID, p.Status)
	case "turn/started":
		l.started(p.ThreadID, p.Turn.ID)
	case "item/completed":
		l.completed(p.ThreadID, p.Item)
	case "turn/completed":
		l.ended(ctx, p.ThreadID, p.Turn)
	case "account/login/completed":
		logins(l).loggedIn(p.Success, string(p.Error))
	case "thread/closed", "thread/archived", "thread/deleted":
		l.closed(p.ThreadID, msg.method != "thread/closed")
	case "serverRequest/resolved":
		l.update(func(s *state) { delete(s.thread(p.ThreadID).calls, string(p.RequestID)) })
	}
}

// otherItem is of a type that codex drops.
var otherItem = json.RawMessage(`{"type":"other"}`)

// introduce records the description of a new thread, and has codex write the thread's file, which it else does some 90
// ms after the first turn has begun. A kill before that loses the thread, and the TUI gives the conversation up.
func (l reports) introduce(t codexthread.Thread) {
	write := false
	l.update(func(s *state) {
		write = s.describe(t)
		if live := s.thread(t.ID); write && l.opts.LateFiles {
			live.writing, live.unwritten, write = false, true, false
		}
	})
	if write {
		l.writeFile(t.ID)
	}
}

// writeFile has codex write the file of a thread that it has described.
func (l reports) writeFile(thread string) {
	params := wire.InjectItems{ThreadID: thread, Items: []json.RawMessage{otherItem}}
	l.c.Post("thread/inject_items", params, func(rpc.Reply) {
		l.update(func(s *state) { s.written(thread) })
	})
}

// writeLate is writeFile for a thread that is about to have its first turn.
func writeLate(m *Manager, thread string) {
	var link *codexConn
	m.update(func(s *state) {
		if t := s.threads[thread]; t != nil && t.unwritten && s.link != nil {
			t.unwritten, t.writing, link = false, true, s.link
		}
	})
	if link != nil {
		(reports{link}).writeFile(thread)
	}
}

// follow records the state of a thread. A thread that runs is subscribed to: only then codex reports its turns.
func (l reports) follow(ctx context.Context, thread string, status codexthread.Status) {
	now := time.Now()
	var subscribe bool
	l.update(func(s *state) {
		t := s.thread(thread)
		if t.status.Active() != status.Active() {
			s.since, t.changed = now, now
		}
		t.status = status
		switch {
		case !status.Waiting():
			t.waiting, t.announced = time.Time{}, false
		case t.waiting.IsZero():
			t.waiting = now
		}
		subscribe = status.Active() && !t.hidden && !t.subscribed && !t.wanted && t.held == 0
		t.wanted = t.wanted || subscribe
	})
	l.announce()
	if subscribe {
		l.tasks.Go(func() { l.subscribe(ctx, thread) })
	}
}

// attempt is the pause between attempts to subscribe to a new thread, which codex refuses until it has written the
// thread's file, about 90 ms after its first turn began.
const attempt = 15 * time.Millisecond

// attempts bounds them, for threads that never have a file.
const attempts = 400

// subscribe subscribes to a thread as soon as codex can, and records the turn that it runs.
func (l reports) subscribe(ctx context.Context, thread string) {
	for range attempts {
		found, err := l.resume(ctx, thread)
		if err == nil {
			l.subscribed(ctx, thread, found)
			break
		}
		if _, ok := refused(err); !ok {
			break
		}
		active := false
		l.update(func(s *state) {
			t := s.thread(thread)
			active = t.status.Active()
			t.wanted = active // follow wants it again when the thread runs again
		})
		if !active {
			return
		}
		pause(ctx, attempt)
	}
	l.update(func(s *state) { s.thread(thread).wanted = false })
}

func (l reports) subscribed(ctx context.Context, thread string, found resumeResult) {
	hidden, last := found.Thread.Hidden(), found.Page.Data
	running := len(last) > 0 && last[0].Status == codexthread.InProgress
	switch {
	case hidden:
		l.update(func(s *state) { s.thread(thread).subscribed = false })
		l.c.Post("thread/unsubscribe", threadParams{thread}, nil)
	case running:
		l.record(func(s *state) {
			s.started(thread, last[0].ID, time.Now())
			for _, msg := range last[0].Messages() {
				s.seen(thread, msg)
			}
		})
	case len(last) > 0 && !found.Thread.Status.Active():
		missed := false
		l.update(func(s *state) { missed = s.missed(thread, last[0], time.Now()) })
		if missed {
			l.ended(ctx, thread, last[0])
		}
	}
}

// started records a turn of a thread that is not hidden.
func (l reports) started(thread, turnID string) {
	hidden := false
	l.update(func(s *state) { hidden = s.thread(thread).hidden })
	if !hidden {
		l.record(func(s *state) { s.started(thread, turnID, time.Now()) })
	}
}

func (l reports) completed(thread string, i codexthread.Item) {
	switch i.Type {
	case "userMessage":
		l.update(func(s *state) { s.seen(thread, codexthread.Message{ClientID: i.ClientID, Content: i.Content}) })
	case "agentMessage":
		l.update(func(s *state) {
			if !s.thread(thread).hidden {
				s.journal.Words, s.journal.WordsAt = shorten(i.Text), time.Now()
			}
		})
	}
}

// ended records the end of a turn.
func (l reports) ended(ctx context.Context, thread string, t codexthread.Turn) {
	hidden, words, wants := false, "", false
	l.record(func(s *state) {
		wants = l.opts.Accounts != nil && s.wantsQuota(thread, t, l.opts.Continue)
		s.ended(thread, t.ID, time.Now())
		s.thread(thread).calls = nil
		if hidden, words = s.thread(thread).hidden, s.journal.Words; !hidden {
			s.ends.add(t)
		}
	})
	if wants {
		l.tasks.Go(func() { logins(l).exhausted(ctx, thread, t) })
	}
	if hidden || wants {
		return
	}
	e := Event{Kind: TurnEnded, Thread: thread, Turn: t.ID, Status: t.Status}
	switch {
	case t.Error != nil:
		e.Detail = t.Error.Message
	case t.Status == codexthread.Completed:
		e.Detail = words
	}
	l.emit(e)
}

func (l reports) closed(thread string, gone bool) {
	l.opts.Unloaded(thread)
	if !gone {
		l.update(func(s *state) { s.forget(thread) })
		return
	}
	l.record(func(s *state) {
		s.forget(thread)
		s.drop(thread, time.Now())
		if s.journal.Last == thread {
			s.journal.Last = ""
		}
	})
}

// maxWords bounds the last words that are kept.
const maxWords = 200

// shorten makes a text fit for a list in a terminal.
func shorten(text string) string {
	r := []rune(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text))
	if len(r) <= maxWords {
		return string(r)
	}
	return string(r[:maxWords]) + "…"
}
