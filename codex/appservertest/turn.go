package appservertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Turn is controlled by a Handler. Its methods send notifications at once, in the
// order and with the fields of codex 0.169. Use it from one goroutine.
type Turn struct {
	Request  Request
	ThreadID string
	ID       string

	peer       *Peer
	thread     *thread
	started    time.Time
	serial     int
	ended      bool // the current response has been ended
	last       any  // the last finished message, for turn/completed
	calls      []call
	asking     sync.WaitGroup
	unreported Usage // of the response that called; reported when the calls are answered
}

// Usage counts tokens.
type Usage struct{ Input, Cached, Output, Reasoning int }

// Failure is the error with which a Handler fails its turn.
type Failure struct {
	// Message is for users.
	Message string
	// Info is codexErrorInfo: a string, or what HTTPInfo makes.
	Info any
	// Usage, if not zero, is reported before the failure, as it is after
	// response.incomplete.
	Usage Usage
}

// Error implements error.
func (f *Failure) Error() string { return f.Message }

// HTTPInfo is a codexErrorInfo with a status; 0 means that codex knows none.
func HTTPInfo(kind string, status int) any {
	code := any(status)
	if status == 0 {
		code = nil
	}
	return map[string]any{kind: map[string]any{"httpStatusCode": code}}
}

func newTurn(p *Peer, th *thread, r Request, cancel context.CancelFunc) *Turn {
	t := &Turn{Request: r, ThreadID: th.id, ID: newID(), peer: p, thread: th, started: time.Now()}
	th.running(t.ID, cancel)
	return t
}

// run plays the whole turn.
func (t *Turn) run(ctx context.Context, h Handler) {
	t.status("active")
	turn := t.shape("inProgress", nil)
	turn["startedAt"] = t.started.Unix()
	t.notify("turn/started", map[string]any{"turn": turn})
	err := h(ctx, t)
	if err == nil && len(t.calls) > 0 {
		t.EndResponse(Usage{})
		err = t.Outputs(ctx)
	}
	interrupted := ctx.Err() != nil
	t.asking.Wait()
	t.thread.idle()
	var failure *Failure
	switch {
	case interrupted:
		t.rateLimits()
		t.rawItem(abortedShape(t.ID))
		t.status("idle")
		t.complete("interrupted", nil)
	case errors.As(err, &failure):
		t.fail(failure)
	case err != nil:
		t.fail(&Failure{Message: err.Error(), Info: "other"})
	default:
		t.EndResponse(Usage{})
		t.status("idle")
		t.complete("completed", nil)
	}
}

// Peer is the client's connection, to send invalid messages.
func (t *Turn) Peer() *Peer { return t.peer }

// Message is an unfinished answer.
type Message struct {
	turn *Turn
	id   string
	text strings.Builder
	at   int64
}

// Begin starts an answer. An empty id means a new one; to restart after Retry, pass the same id again.
func (t *Turn) Begin(id string) *Message {
	if id == "" {
		id = t.newItemID("msg")
	}
	t.ended = false
	m := &Message{turn: t, id: id, at: time.Now().UnixMilli()}
	t.item("item/started", m.shape(nil), m.at)
	return m
}

// Delta adds text.
func (m *Message) Delta(text string) {
	m.text.WriteString(text)
	m.turn.notify("item/agentMessage/delta", map[string]any{"itemId": m.id, "delta": text})
}

// End finishes the answer.
func (m *Message) End() {
	now := time.Now().UnixMilli()
	m.turn.last = m.shape(now)
	m.turn.item("item/completed", m.shape(now), now)
	m.turn.rawItem(map[string]any{
		"type": "message", "status": "completed", "id": m.id, "role": "assistant",
		"content":       []any{map[string]any{"type": "output_text", "text": m.text.String(), "annotations": []any{}}},
		passthroughName: map[string]any{"turn_id": m.turn.ID, "content_item_kinds": []any{"unknown"}},
	})
}

// Text sends an answer in the given chunks.
func (t *Turn) Text(chunks ...string) {
	m := t.Begin("")
	for _, c := range chunks {
		m.Delta(c)
	}
	m.End()
}

// Whole sends an answer without deltas.
func (t *Turn) Whole(text string) {
	m := t.Begin("")
	m.text.WriteString(text)
	m.End()
}

// Reasoning sends a reasoning item of one summary part in the given chunks.
func (t *Turn) Reasoning(chunks ...string) {
	t.ended = false
	id, at := t.newItemID("rs"), time.Now().UnixMilli()
	t.item("item/started", reasoningShape(id, []any{}, at, nil), at)
	t.notify("item/reasoning/summaryPartAdded", map[string]any{"itemId": id, "summaryIndex": 0})
	for _, c := range chunks {
		t.notify("item/reasoning/summaryTextDelta", map[string]any{"itemId": id, "delta": c, "summaryIndex": 0})
	}
	text, now := strings.Join(chunks, ""), time.Now().UnixMilli()
	t.item("item/completed", reasoningShape(id, []any{text}, at, now), now)
	t.rawItem(map[string]any{
		"type": "reasoning", "id": id, "content": nil, "encrypted_content": "demo",
		"summary":       []any{map[string]any{"type": "summary_text", "text": text}},
		passthroughName: map[string]any{"turn_id": t.ID},
	})
}

// EndResponse ends one model response with its usage. A turn has one unless the handler calls EndResponse more often;
// without a call the turn ends one with zero usage.
func (t *Turn) EndResponse(u Usage) {
	if t.ended {
		return
	}
	t.ended = true
	if !t.peer.server.Older {
		t.notify("rawResponse/completed", map[string]any{
			"responseId": t.newItemID("resp"), "usage": u.shape(),
			"usageMetadata": map[string]any{"amount": nil, "metadata": u.upstreamShape()},
		})
	}
	if len(t.calls) == 0 {
		t.tokens(u, u)
		t.rateLimits()
	} else {
		t.unreported = u
	}
}

func (t *Turn) tokens(u, last Usage) {
	total := t.thread.used(u)
	t.notify("thread/tokenUsage/updated", map[string]any{"tokenUsage": map[string]any{
		"total": total.shape(), "last": last.shape(), "modelContextWindow": 258400,
	}})
}

// Retry reports that the upstream failed and that the request is repeated.
func (t *Turn) Retry(message string, info any, details string) {
	t.rateLimits()
	e := errorShape(message, info)
	e["additionalDetails"] = details
	t.notify("error", map[string]any{"error": e, "willRetry": true})
}

// Notify sends a notification of this turn, with threadId and turnId added.
func (t *Turn) Notify(method string, params map[string]any) { t.notify(method, params) }

// Ask sends a request of this turn to the client and returns its whole reply.
func (t *Turn) Ask(ctx context.Context, method string, params map[string]any) (json.RawMessage, error) {
	return t.peer.Request(ctx, method, t.address(params))
}

func (t *Turn) fail(f *Failure) {
	if f.Usage != (Usage{}) {
		t.tokens(f.Usage, Usage{})
	}
	e := errorShape(f.Message, f.Info)
	t.status("systemError")
	t.notify("error", map[string]any{"error": e, "willRetry": false})
	t.complete("failed", e)
}

func (t *Turn) complete(status string, failure map[string]any) {
	turn := t.shape(status, failure)
	turn["startedAt"], turn["completedAt"] = t.started.Unix(), time.Now().Unix()
	turn["durationMs"] = time.Since(t.started).Milliseconds()
	if status == "completed" && t.last != nil {
		turn["items"], turn["itemsView"] = []any{t.last}, "summary"
	}
	t.peer.Notify("turn/completed", map[string]any{"threadId": t.ThreadID, "turn": turn})
}

func (t *Turn) notify(method string, params map[string]any) { t.peer.Notify(method, t.address(params)) }

// address adds the thread and the turn, which of all notifications of a turn
// only turn/started and turn/completed carry inside "turn".
func (t *Turn) address(params map[string]any) map[string]any {
	params["threadId"] = t.ThreadID
	if _, ok := params["turn"]; !ok {
		params["turnId"] = t.ID
	}
	return params
}

func (t *Turn) item(method string, item map[string]any, at int64) {
	params := map[string]any{"item": item}
	if method == "item/started" {
		params["startedAtMs"] = at
	} else {
		params["completedAtMs"], params["contentTokenCount"] = at, nil
	}
	t.notify(method, params)
}

func (t *Turn) rawItem(item map[string]any) {
	if t.peer.server.Older {
		delete(item, "id")
	}
	t.notify("rawResponseItem/completed", map[string]any{"item": item})
}

func (t *Turn) status(kind string) {
	s := map[string]any{"type": kind}
	if kind == "active" {
		s["activeFlags"] = []any{}
	}
	t.peer.Notify("thread/status/changed", map[string]any{"threadId": t.ThreadID, "status": s})
}

func (t *Turn) rateLimits() {
	t.peer.Notify("account/rateLimits/updated", map[string]any{"rateLimits": rateLimitsShape()})
}

func (t *Turn) newItemID(prefix string) string {
	t.serial++
	return fmt.Sprintf("%s_%s_%d", prefix, t.ID, t.serial)
}
