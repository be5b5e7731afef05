package appserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// TurnRequest is one stateless request: the whole history, answered once.
type TurnRequest struct {
	// Model and Cwd may be empty for the worker's own.
	Model, Cwd string
	// BaseInstructions replaces codex's own system prompt; nil keeps it and ""
	// sends none. Codex 0.169 puts it upstream as a developer message.
	BaseInstructions *string
	// Items is the conversation so far. Codex refuses an empty one.
	Items []Item
	// Effort and Summary are as in turn/start; empty means the model's default.
	Effort, Summary string
	// ServiceTier is flex, priority or empty, which is the worker's own. Codex
	// 0.169 drops others.
	ServiceTier string
	// Verbosity is low, medium, high or empty, which is the model's default.
	Verbosity string
	// OutputSchema, if any, is sent upstream as a strict JSON schema.
	OutputSchema json.RawMessage
	// Tools are the client's own: the turn ends with TurnCalledTools when the
	// model has called some.
	Tools []Tool
}

// StartTurn starts a thread that nobody keeps, injects the history and starts
// the turn. While codex answers that it is overloaded it tries again, for as
// long as ctx lasts. After an error nothing is left running in codex, even when
// ctx ended between a request and its reply.
func (c *Conn) StartTurn(ctx context.Context, r TurnRequest) (*Turn, error) {
	threadID, err := c.startThread(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("cannot start a thread: %w", err)
	}
	return c.runTurn(ctx, threadID, Usage{}, r)
}

// runTurn injects r's items into the thread, which has used so many tokens
// before, and starts the turn.
func (c *Conn) runTurn(ctx context.Context, threadID string, before Usage, r TurnRequest) (*Turn, error) {
	t := c.newTurn(threadID, r.Tools)
	t.transcript.before, t.transcript.total = before, before
	if err := c.retrying(ctx, func() error {
		return c.Call(ctx, "thread/inject_items", injectItemsParams{ThreadID: threadID, Items: r.Items}, nil)
	}); err != nil {
		t.leave()
		return nil, fmt.Errorf("cannot inject the history: %w", err)
	}
	if err := t.start(ctx, r); err != nil {
		return nil, fmt.Errorf("cannot start a turn: %w", err)
	}
	return t, nil
}

func (c *Conn) startThread(ctx context.Context, r TurnRequest) (string, error) {
	params := threadStartParams{
		Ephemeral:             true,
		Model:                 r.Model,
		Cwd:                   r.Cwd,
		BaseInstructions:      r.BaseInstructions,
		ExperimentalRawEvents: true,
		ServiceTier:           r.ServiceTier,
		DynamicTools:          dynamicTools(r.Tools),
	}
	if r.Verbosity != "" {
		params.Config = map[string]string{"model_verbosity": r.Verbosity}
	}
	var resp threadStartResponse
	unsubscribe := func(m incoming) { // on the reading goroutine: resp is not its to touch
		var late threadStartResponse
		if m.decode("thread/start", &late) == nil {
			c.post("thread/unsubscribe", unsubscribeParams{ThreadID: late.Thread.ID}, nil)
		}
	}
	err := c.retrying(ctx, func() error { return c.call(ctx, "thread/start", params, &resp, unsubscribe) })
	return resp.Thread.ID, err
}

// start sends turn/start. When the caller leaves before the reply, the reply
// brings the turn's id, which is what it takes to stop it.
func (t *Turn) start(ctx context.Context, r TurnRequest) error {
	params := turnStartParams{
		ThreadID:     t.threadID,
		Input:        []struct{}{},
		Effort:       r.Effort,
		Summary:      r.Summary,
		OutputSchema: r.OutputSchema,
	}
	var resp turnStartResponse
	stop := func(m incoming) {
		var late turnStartResponse
		if m.decode("turn/start", &late) == nil {
			t.conn.door.enter(func(*state) { t.box.turnID = late.Turn.ID })
		}
		t.leave()
	}
	err := t.conn.retrying(ctx, func() error { return t.conn.call(ctx, "turn/start", params, &resp, stop) })
	if wait := (*waitError)(nil); errors.As(err, &wait) {
		t.conn.door.enter(func(*state) { t.box.shut(ErrTurnClosed) })
		return err
	}
	if err != nil {
		t.leave()
		return err
	}
	t.id = resp.Turn.ID
	t.conn.door.enter(func(*state) { t.box.turnID = t.id })
	return nil
}

const (
	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 2 * time.Second
)

// retrying repeats f while codex is overloaded: it asks for "exponentially
// increasing delay and jitter" with its code -32001.
func (c *Conn) retrying(ctx context.Context, f func() error) error {
	for backoff := firstBackoff; ; backoff = min(2*backoff, maxBackoff) {
		err := f()
		if !isOverloaded(err) {
			return err
		}
		t := time.NewTimer(backoff/2 + rand.N(backoff))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return err
		case <-c.done:
			t.Stop()
			return c.Err()
		}
	}
}
