package appserver

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"codex-proxy/codex/rpc"
)

// StartTurn starts an ephemeral thread, injects the history and starts the turn. While codex answers that it is
// overloaded StartTurn tries again, as long as ctx lasts. After an error nothing is left running in codex, even when
// ctx ended between a request and its reply.
func (c *Conn) StartTurn(ctx context.Context, r TurnRequest) (t *Turn, err error) {
	o := newOutstanding(r.Ended)
	defer o.done()
	start := newThreadStart(r)
	prestarted := c.claimPrestarted(start)
	err = c.retrying(ctx, func() error {
		t, err = c.startTurn(ctx, prestarted, start, r, o)
		prestarted = "" // for the first attempt only
		return err
	})
	return t, err
}

// startTurn starts the turn in the prestarted thread, if there is one and codex accepts it, and else in a new thread.
func (c *Conn) startTurn(
	ctx context.Context, prestarted string, start *threadStart, r TurnRequest, o *outstanding,
) (*Turn, error) {
	if prestarted != "" {
		if t, err := c.runTurn(ctx, prestarted, Usage{}, start, r, o); !isRefused(err) {
			return t, err
		}
	}
	threadID, err := c.startThread(ctx, start, o)
	if err != nil {
		return nil, fmt.Errorf("cannot start a thread: %w", err)
	}
	return c.runTurn(ctx, threadID, Usage{}, start, r, o)
}

// runTurn injects r's items into the thread (its earlier turns used the tokens in before) and starts the turn. next
// has the parameters with which a thread may be prestarted; nil prestarts none.
func (c *Conn) runTurn(
	ctx context.Context, threadID string, before Usage, next *threadStart, r TurnRequest, o *outstanding,
) (*Turn, error) {
	t := c.newTurn(threadID, r.Tools)
	t.outstanding = o
	o.add()
	if next.worthKeeping() {
		t.next = next
	}
	t.transcript.before, t.transcript.total = before, before
	if r.Starting != nil {
		r.Starting(threadID)
	}
	late, err := t.begin(ctx, r)
	switch {
	case err == nil:
		return t, nil
	case late: // the reply to turn/start is outstanding, and closes the turn
		c.update(func(*state) { t.box.shut(ErrTurnClosed) })
	default:
		t.closeAsync(nil)
	}
	return nil, err
}

// threadStart holds the parameters of a thread/start.
type threadStart struct {
	params      json.RawMessage
	fingerprint fingerprint
	known       bool // other threads were started with the same parameters
}

// maxKeptStart is the largest threadStart that a running turn keeps to prestart the next thread, in bytes.
const maxKeptStart = 256 << 10

func (s *threadStart) worthKeeping() bool {
	return s != nil && s.known && len(s.params) <= maxKeptStart
}

func newThreadStart(r TurnRequest) *threadStart {
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
	start.fingerprint = sha256.Sum256(start.params)
	return start
}

func (c *Conn) startThread(ctx context.Context, start *threadStart, o *outstanding) (string, error) {
	var resp threadStartResponse
	unsubscribe := func(r rpc.Reply) { // it must not touch resp
		var late threadStartResponse
		if r.Decode(&late) != nil {
			o.done()
			return
		}
		c.unsubscribe(late.Thread.ID, func(rpc.Reply) { o.done() })
	}
	o.add()
	err := c.CallLate(ctx, "thread/start", start.params, &resp, unsubscribe)
	if !errors.As(err, new(*rpc.WaitError)) {
		o.done()
	}
	return resp.Thread.ID, err
}

// begin sends thread/inject_items and turn/start together, as codex handles the requests of a connection in order, and
// repeats those that codex is too busy for. late means that the reply to turn/start is outstanding.
func (t *Turn) begin(ctx context.Context, r TurnRequest) (late bool, err error) {
	var missed error
	injected := false
	err = t.conn.retrying(ctx, func() error {
		inject, start, err := t.send(ctx, r, !injected)
		if err != nil {
			return err
		}
		if !injected {
			missed = t.conn.Await(ctx, inject, nil, nil)
			injected = missed == nil
		}
		err = t.awaitStart(ctx, start)
		late = errors.As(err, new(*rpc.WaitError))
		if injected || isOverloaded(missed) && isOverloaded(err) {
			return err
		}
		return nil // a turn that has started lacks its history: do not retry
	})
	if missed != nil {
		err = fmt.Errorf("cannot inject the history: %w", missed)
	}
	return late, err
}

// send sends turn/start, preceded by the items if withItems is set.
func (t *Turn) send(ctx context.Context, r TurnRequest, withItems bool) (inject, start rpc.Request, err error) {
	var requests []rpc.Request
	if withItems {
		params := injectItemsParams{ThreadID: t.threadID, Items: r.Items}
		inject, err = t.conn.NewRequest(ctx, "thread/inject_items", params)
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

// awaitStart waits for the reply to turn/start. If ctx ends first, the reply closes the turn.
func (t *Turn) awaitStart(ctx context.Context, start rpc.Request) error {
	var resp turnStartResponse
	if err := t.conn.Await(ctx, start, &resp, t.closeLate); err != nil {
		return fmt.Errorf("cannot start a turn: %w", err)
	}
	t.conn.update(func(*state) { t.box.turnID = resp.Turn.ID })
	return nil
}

// closeLate handles a late reply to turn/start. The reply has the turn's id, which turn/interrupt needs.
func (t *Turn) closeLate(r rpc.Reply) {
	var late turnStartResponse
	if r.Decode(&late) == nil {
		t.conn.update(func(*state) { t.box.turnID = late.Turn.ID })
	}
	t.closeAsync(nil)
}
