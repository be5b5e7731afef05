package remotes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"codex-proxy/codex/rpc"
	"codex-proxy/codex/wire"
	"codex-proxy/remotes/codexthread"
	"codex-proxy/remotes/turnjournal"
)

// ErrNotCut is the error of Proceed for a thread without a cut turn.
var ErrNotCut = errors.New("no thread with this id has a turn that waits to go on")

type threadListParams struct {
	Limit  int    `json:"limit"`
	Sort   string `json:"sortKey"`
	Cursor string `json:"cursor,omitempty"`
}

type threadListResult struct {
	Data []codexthread.Thread `json:"data"`
	Next string               `json:"nextCursor"`
}

type threadResult struct {
	Thread codexthread.Thread `json:"thread"`
}

type textInput struct {
	Type     string     `json:"type"`
	Text     string     `json:"text"`
	Elements []struct{} `json:"text_elements"`
}

// Message is a message of a user for a thread.
type Message struct {
	// its name or id; empty: the one that was used last, or a new one if the remote has none
	Thread string `json:"thread,omitempty"`
	Text   string `json:"text,omitempty"`
	// ID is the message's own. Again means that it was sent before: one that the remote has is not sent twice.
	ID    string `json:"id,omitempty"`
	Again bool   `json:"again,omitempty"`
}

// ErrUnsure is the error of Send if codex has ended before its answer.
var ErrUnsure = errors.New("codex has ended before it took the message")

// Send sends a message. A turn that runs takes it up.
func (m *Manager) Send(ctx context.Context, msg Message) (threadID string, err error) {
	if !isPlainID(msg.ID) {
		return "", errors.New("the message has no id")
	}
	l, err := m.linked()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnsure, err)
	}
	if threadID, err = l.send(ctx, msg); errors.Is(err, rpc.ErrLost) {
		err = fmt.Errorf("%w: %w", ErrUnsure, err)
	}
	return threadID, err
}

func (l *codexConn) send(ctx context.Context, msg Message) (threadID string, err error) {
	thread, release, err := l.loaded(ctx, msg.Thread)
	if err != nil {
		return "", err
	}
	defer release()
	part, err := json.Marshal(textInput{"text", msg.Text, []struct{}{}})
	if err != nil {
		return "", err
	}
	p := turnStartParams{ThreadID: thread, ClientID: "codex-proxy-" + msg.ID, Input: []json.RawMessage{part}}
	if msg.Again {
		if has, err := l.has(ctx, thread, p.ClientID); has || err != nil {
			return thread, err
		}
	}
	content, err := json.Marshal(p.Input)
	if err != nil {
		return "", err
	}
	now := time.Now()
	i := turnjournal.Input{ClientID: p.ClientID, Content: content, At: now, Request: p.ClientID}
	l.record(func(s *state) { s.asked(thread, i, now) })
	l.while(renewal, renewing)
	l.announceCheckout(ctx, thread)
	var started wire.TurnStarted
	if err := l.c.Call(ctx, "turn/start", p, &started); err != nil {
		if _, no := refused(err); no {
			l.RecordRefusal(i.Request)
		}
		return thread, fmt.Errorf("cannot send the message: %w", err)
	}
	return thread, nil
}

// has reports whether a message has gone to codex.
func (l *codexConn) has(ctx context.Context, thread, clientID string) (bool, error) {
	has := false
	l.update(func(s *state) {
		if r := s.journal.Threads[thread]; r != nil {
			has = slices.ContainsFunc(r.Inputs, func(i turnjournal.Input) bool {
				return i.ClientID == clientID || slices.Contains(i.With, clientID)
			})
		}
	})
	if has {
		return true, nil
	}
	turns, err := l.turns(ctx, thread)
	if err != nil {
		return false, fmt.Errorf("cannot read thread %s: %w", thread, err)
	}
	return slices.ContainsFunc(turns, func(t codexthread.Turn) bool {
		return slices.ContainsFunc(t.Messages(), func(msg codexthread.Message) bool { return msg.ClientID == clientID })
	}), nil
}

// loaded loads a thread, or starts one. It stays loaded until release is called, and then as long as it runs.
func (l *codexConn) loaded(ctx context.Context, thread string) (id string, release func(), err error) {
	if thread, err = l.choose(ctx, thread); err != nil {
		return "", nil, err
	}
	if thread == "" {
		var r threadResult
		if err := l.c.Call(ctx, "thread/start", struct{}{}, &r); err != nil {
			return "", nil, fmt.Errorf("cannot start a thread: %w", err)
		}
		release = l.holdNew(r.Thread.ID)
		l.introduced(r.Thread.ID)
		return r.Thread.ID, release, nil
	}
	l.introduced(thread) // a client may have just started it
	release = l.hold(thread)
	if _, err := l.resume(ctx, thread); err != nil {
		release()
		return "", nil, fmt.Errorf("cannot resume thread %s: %w", thread, err)
	}
	return thread, release, nil
}

// hold keeps the subscription to a thread, which comes with its resume.
func (l *codexConn) hold(thread string) (release func()) {
	l.update(func(s *state) { s.hold(thread) })
	return func() { l.release(thread) }
}

func (s *records) hold(thread string) { s.thread(thread).held++ }

// holdNew is hold for a thread that the manager has started, which subscribes to it.
func (l *codexConn) holdNew(thread string) (release func()) {
	l.update(func(s *state) { s.thread(thread).subscribed = true })
	return l.hold(thread)
}

func (l *codexConn) release(thread string) { l.update(func(s *state) { s.thread(thread).held-- }) }

// choose is the thread that was used last if none is named; empty if the remote has none.
func (l *codexConn) choose(ctx context.Context, thread string) (string, error) {
	if thread != "" {
		return l.find(ctx, thread)
	}
	l.update(func(s *state) { thread = s.journal.Last })
	if thread == "" {
		var list threadListResult
		if err := l.c.Call(ctx, "thread/list", threadListParams{Limit: 1, Sort: "updated_at"}, &list); err != nil {
			return "", fmt.Errorf("cannot list the threads: %w", err)
		}
		if len(list.Data) > 0 {
			thread = list.Data[0].ID
		}
	}
	return thread, nil
}

// Proceed continues the turn of a thread that was cut and waits for its user's word. An empty thread is the only one
// that has such a turn.
func (m *Manager) Proceed(ctx context.Context, thread string) (threadID string, err error) {
	l, err := m.linked()
	if err != nil {
		return "", err
	}
	var r turnjournal.Record
	m.record(func(s *state) {
		if thread, r, err = s.cutTurn(m.opts.Name, thread); err == nil { // for one caller
			s.journal.Threads[thread].Asked = false
			s.hold(thread)
		}
	})
	if err != nil {
		return thread, err
	}
	defer l.release(thread)
	claimed := time.Now()
	h, err := l.history(ctx, thread)
	if err == nil {
		err = recovery{l}.proceed(ctx, thread, verdict{cut: true, inputs: missing(r, h.turns), at: claimed})
	}
	if err != nil {
		m.record(func(s *state) { s.offer(thread, r, claimed) })
		return thread, fmt.Errorf("cannot continue thread %s: %w", thread, err)
	}
	return thread, nil
}

// offer takes back that a cut turn goes on, unless something else runs in its thread.
func (s *records) offer(thread string, before turnjournal.Record, claimed time.Time) {
	r := s.journal.Threads[thread]
	if r == nil || r.Turn != before.Turn || len(r.InputsAfter(claimed)) > 0 {
		return
	}
	*r = before
}

// cutTurn is the turn that Proceed continues, of the remote with that name.
func (s *records) cutTurn(remote, thread string) (string, turnjournal.Record, error) {
	var cut []string
	for id, r := range s.journal.Threads {
		if r.Asked && (thread == "" || id == thread) {
			cut = append(cut, id)
		}
	}
	switch {
	case len(cut) == 1:
		return cut[0], s.journal.Threads[cut[0]].Clone(), nil
	case len(cut) > 1:
		slices.Sort(cut)
		return "", turnjournal.Record{}, fmt.Errorf("%d threads have a turn that waits to go on: give one by --thread: %s",
			len(cut), strings.Join(cut, ", "))
	case thread != "":
		return thread, turnjournal.Record{}, ErrNotCut
	}
	return "", turnjournal.Record{}, fmt.Errorf("no cut turn of the remote %s waits to go on: "+
		"codex-proxy remotes send %[1]s TEXT sends a message", remote)
}
