package appserver

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"codex-proxy/proxy/appserver/rpc"
)

// TurnRequest is one stateless request: the whole history, answered once.
type TurnRequest struct {
	// Model may be empty for the worker's own.
	Model string
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
	// Ended is called once, when codex has nothing more to do for the turn: it has
	// confirmed the end and let go of the thread, or the thread is kept, or the turn did
	// not come about, or the connection is closed. That may be long after StartTurn
	// or Turn.Close has returned, as they end with their context. It is called from
	// any goroutine, and must not wait. May be nil.
	Ended func()
}

// Footprint is how many bytes it takes at most to start the turn: the items, and once
// more as they are sent; all else also as a parameter of its thread.
func (r TurnRequest) Footprint() (n int64) {
	rest := len(r.OutputSchema)
	if r.BaseInstructions != nil {
		rest += len(*r.BaseInstructions)
	}
	for _, t := range r.Tools {
		rest += len(t.Name) + len(t.Description) + len(t.InputSchema)
	}
	for _, item := range r.Items {
		n += 2 * (int64(len(item)) + spare)
	}
	return n + 3*int64(rest)
}

// StartTurn starts a thread that nobody keeps, injects the history and starts
// the turn. While codex answers that it is overloaded it tries again, for as
// long as ctx lasts. After an error nothing is left running in codex, even when
// ctx ended between a request and its reply.
func (c *Conn) StartTurn(ctx context.Context, r TurnRequest) (t *Turn, err error) {
	tail := newTail(r.Ended)
	defer tail.let()
	start := newThread(r)
	ahead := c.takeAhead(start)
	err = c.retrying(ctx, func() error {
		t, err = c.startTurn(ctx, ahead, start, r, tail)
		ahead = "" // it has been tried
		return err
	})
	return t, err
}

// startTurn starts the turn in the thread that was started ahead, if there is one
// and codex takes it.
func (c *Conn) startTurn(
	ctx context.Context, ahead string, start *threadStart, r TurnRequest, tail *tail,
) (*Turn, error) {
	if ahead != "" {
		if t, err := c.runTurn(ctx, ahead, Usage{}, start, r, tail); !isRefused(err) {
			return t, err
		}
	}
	threadID, err := c.startThread(ctx, start, tail)
	if err != nil {
		return nil, fmt.Errorf("cannot start a thread: %w", err)
	}
	return c.runTurn(ctx, threadID, Usage{}, start, r, tail)
}

// runTurn injects r's items into the thread, which has used so many tokens
// before, and starts the turn. next is what the thread of another one may be started
// with; nil if it is not worth while.
func (c *Conn) runTurn(
	ctx context.Context, threadID string, before Usage, next *threadStart, r TurnRequest, tail *tail,
) (*Turn, error) {
	t := c.newTurn(threadID, r.Tools)
	t.tail = tail
	tail.hold()
	if next.worthKeeping() {
		t.next = next
	}
	t.transcript.before, t.transcript.total = before, before
	late, err := t.begin(ctx, r)
	switch {
	case err == nil:
		return t, nil
	case late: // the answer to turn/start is still to come, and ends it
		c.update(func(*state) { t.box.shut(ErrTurnClosed) })
	default:
		t.leave()
	}
	return nil, err
}

// threadStart is what a thread is started with.
type threadStart struct {
	params json.RawMessage
	kind   kind
	known  bool // others were started like that
}

// keptStart is the longest start that is kept for the thread of another turn, in bytes:
// each turn in flight has its own.
const keptStart = 256 << 10

func (s *threadStart) worthKeeping() bool { return s != nil && s.known && len(s.params) <= keptStart }

func newThread(r TurnRequest) *threadStart {
	params := threadStartParams{
		Ephemeral:             true,
		Model:                 r.Model,
		BaseInstructions:      r.BaseInstructions,
		ExperimentalRawEvents: true,
		ServiceTier:           r.ServiceTier,
		DynamicTools:          dynamicTools(r.Tools),
	}
	if r.Verbosity != "" {
		params.Config = threadConfig{modelVerbosity: r.Verbosity}
	}
	start := &threadStart{params: params.AppendJSON(make([]byte, 0, params.Size()))}
	start.kind = sha256.Sum256(start.params)
	return start
}

// Kind stands for all of a request but its items.
func (r TurnRequest) Kind() [sha256.Size]byte {
	thread := newThread(r).kind
	b := append(make([]byte, 0, spare), thread[:]...)
	for _, s := range []string{r.Effort, r.Summary, string(r.OutputSchema)} {
		b = quoted(b, s, "")
	}
	return sha256.Sum256(b)
}

func (c *Conn) startThread(ctx context.Context, start *threadStart, tail *tail) (string, error) {
	var resp threadStartResponse
	unsubscribe := func(r rpc.Reply) { // resp is not its to touch
		var late threadStartResponse
		if r.Decode(&late) != nil {
			tail.let()
			return
		}
		c.postRetrying("thread/unsubscribe", unsubscribeParams{ThreadID: late.Thread.ID}, func(rpc.Reply) { tail.let() })
	}
	tail.hold()
	err := c.CallLate(ctx, "thread/start", start.params, &resp, unsubscribe)
	if !errors.As(err, new(*rpc.WaitError)) {
		tail.let()
	}
	return resp.Thread.ID, err
}

// begin sends thread/inject_items and turn/start in one go, as codex takes the
// requests of a connection one after the other, and again what it is too busy for.
// late tells that the answer to turn/start is still to come.
func (t *Turn) begin(ctx context.Context, r TurnRequest) (late bool, err error) {
	var missed error
	injected := false
	err = t.conn.retrying(ctx, func() error {
		inject, start, err := t.ask(ctx, r, !injected)
		if err != nil {
			return err
		}
		if !injected {
			missed = t.conn.Await(ctx, inject, nil, nil)
			injected = missed == nil
		}
		err = t.started(ctx, start)
		late = errors.As(err, new(*rpc.WaitError))
		if injected || isOverloaded(missed) && isOverloaded(err) {
			return err
		}
		return nil // if the turn has started, it has not all that belongs to it
	})
	if missed != nil {
		err = fmt.Errorf("cannot inject the history: %w", missed)
	}
	return late, err
}

// ask sends turn/start, and the items before it if so.
func (t *Turn) ask(ctx context.Context, r TurnRequest, items bool) (inject, start rpc.Request, err error) {
	var requests []rpc.Request
	if items {
		inject, err = t.conn.NewRequest(ctx, "thread/inject_items", injectItemsParams{ThreadID: t.threadID, Items: r.Items})
		requests = append(requests, inject)
	}
	if err == nil {
		start, err = t.conn.NewRequest(ctx, "turn/start", turnStartParams{
			ThreadID:     t.threadID,
			Input:        []struct{}{},
			Effort:       r.Effort,
			Summary:      r.Summary,
			OutputSchema: r.OutputSchema,
		})
		requests = append(requests, start)
	}
	if err != nil {
		t.conn.Cancel(requests...)
		return inject, start, err
	}
	return inject, start, t.conn.Send(ctx, requests...)
}

// started takes the answer to turn/start. If the caller leaves before it, the
// answer ends the turn.
func (t *Turn) started(ctx context.Context, start rpc.Request) error {
	var resp turnStartResponse
	if err := t.conn.Await(ctx, start, &resp, t.end); err != nil {
		return fmt.Errorf("cannot start a turn: %w", err)
	}
	t.conn.update(func(*state) { t.box.turnID = resp.Turn.ID })
	return nil
}

// end takes an answer to turn/start that comes too late. It brings the turn's id,
// which is what it takes to stop it.
func (t *Turn) end(r rpc.Reply) {
	var late turnStartResponse
	if r.Decode(&late) == nil {
		t.conn.update(func(*state) { t.box.turnID = late.Turn.ID })
	}
	t.leave()
}
