package remotes

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ErrNotCut is the error of Proceed for a thread without a cut turn.
var ErrNotCut = errors.New("no thread with this id has a turn that waits to go on")

type threadListParams struct {
	Limit  int    `json:"limit"`
	Sort   string `json:"sortKey"`
	Cursor string `json:"cursor,omitempty"`
}

type threadListResult struct {
	Data []threadInfo `json:"data"`
	Next string       `json:"nextCursor"`
}

type threadResult struct {
	Thread threadInfo `json:"thread"`
}

type textInput struct {
	Type     string     `json:"type"`
	Text     string     `json:"text"`
	Elements []struct{} `json:"text_elements"`
}

// Send sends a message of a user to a thread, by its name or id. An empty thread is the one that was used last, or a new one if the remote
// has none. A turn that runs takes the message up.
func (k *Keeper) Send(ctx context.Context, thread, text string) (threadID string, err error) {
	l, err := k.linked()
	if err != nil {
		return "", err
	}
	thread, release, err := l.loaded(ctx, thread)
	if err != nil {
		return "", err
	}
	defer release()
	part, err := json.Marshal(textInput{"text", text, []struct{}{}})
	if err != nil {
		return "", err
	}
	p := turnStartParams{ThreadID: thread, ClientID: "codex-proxy-" + rand.Text(), Input: []json.RawMessage{part}}
	content, err := json.Marshal(p.Input)
	if err != nil {
		return "", err
	}
	now := time.Now()
	k.record(func(s *state) { s.asked(thread, input{ClientID: p.ClientID, Content: content, At: now}, now) })
	var started turnStartResult
	if err := l.c.Call(ctx, "turn/start", p, &started); err != nil {
		return thread, fmt.Errorf("cannot send the message: %w", err)
	}
	return thread, nil
}

// loaded loads a thread, or starts one. It stays loaded until release is called, and then as long as it runs.
func (l *link) loaded(ctx context.Context, thread string) (id string, release func(), err error) {
	if thread, err = l.choose(ctx, thread); err != nil {
		return "", nil, err
	}
	if thread == "" {
		var r threadResult
		if err := l.c.Call(ctx, "thread/start", struct{}{}, &r); err != nil {
			return "", nil, fmt.Errorf("cannot start a thread: %w", err)
		}
		return r.Thread.ID, l.hold(r.Thread.ID), nil
	}
	release = l.hold(thread)
	if _, err := l.resume(ctx, thread); err != nil {
		release()
		return "", nil, fmt.Errorf("cannot resume thread %s: %w", thread, err)
	}
	return thread, release, nil
}

// hold keeps the subscription to a thread.
func (l *link) hold(thread string) (release func()) {
	l.update(func(s *state) {
		t := s.thread(thread)
		t.subscribed = true
		t.held++
	})
	return func() { l.update(func(s *state) { s.thread(thread).held-- }) }
}

// choose is the thread that was used last if none is named; empty if the remote has none.
func (l *link) choose(ctx context.Context, thread string) (string, error) {
	if thread != "" {
		return l.find(ctx, thread)
	}
	l.update(func(s *state) { thread = s.ledger.Last })
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

// Proceed continues the turn of a thread that was cut and waits for its user's word. An empty thread is the only one that
// has such a turn.
func (k *Keeper) Proceed(ctx context.Context, thread string) (threadID string, err error) {
	l, err := k.linked()
	if err != nil {
		return "", err
	}
	var r record
	k.update(func(s *state) { thread, r, err = s.cutTurn(k.opts.Name, thread) })
	if err != nil {
		return thread, err
	}
	defer l.hold(thread)()
	h, err := l.history(ctx, thread)
	if err != nil {
		return thread, fmt.Errorf("cannot read thread %s: %w", thread, err)
	}
	return thread, l.proceed(ctx, thread, verdict{cut: true, inputs: missing(r, h.turns)})
}

// cutTurn is the turn that Proceed continues, of the remote with that name.
func (s *state) cutTurn(remote, thread string) (string, record, error) {
	var cut []string
	for id, r := range s.ledger.Threads {
		if r.Asked && (thread == "" || id == thread) {
			cut = append(cut, id)
		}
	}
	switch {
	case len(cut) == 1:
		return cut[0], s.ledger.Threads[cut[0]].clone(), nil
	case len(cut) > 1:
		slices.Sort(cut)
		return "", record{}, fmt.Errorf("%d threads have a turn that waits to go on: give one by --thread: %s",
			len(cut), strings.Join(cut, ", "))
	case thread != "":
		return thread, record{}, ErrNotCut
	}
	return "", record{}, fmt.Errorf("no cut turn of the remote %s waits to go on: codex-proxy remotes send %[1]s TEXT "+
		"sends a message", remote)
}
