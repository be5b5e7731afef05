package appserver

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"codex-proxy/codex/rpc"
	"codex-proxy/codex/wire"
)

// starting is the start of one turn.
type starting struct {
	conn        *Conn
	request     TurnRequest
	thread      *threadStart // of a new thread, and of one to prestart; nil in a kept thread
	outstanding *outstanding
}

// outstanding counts the work of codex for one TurnRequest: requests without a reply, and turns that have not ended.
type outstanding struct {
	count atomic.Int64
	ended func() // TurnRequest.Ended
}

// newOutstanding counts 1, for StartTurn.
func newOutstanding(ended func()) *outstanding {
	o := &outstanding{ended: ended}
	o.add()
	return o
}

func (o *outstanding) add() { o.count.Add(1) }

func (o *outstanding) done() {
	if o.count.Add(-1) == 0 && o.ended != nil {
		o.ended()
	}
}

// StartTurn starts an ephemeral thread, injects the history and starts the turn. While codex answers that it is
// overloaded StartTurn tries again, as long as ctx lasts. After an error nothing is left running in codex, even when
// ctx ended between a request and its reply.
func (c *Conn) StartTurn(ctx context.Context, r TurnRequest) (t *Turn, err error) {
	s := starting{conn: c, request: r, thread: newThreadStart(r, c.opts.ThreadConfig),
		outstanding: newOutstanding(r.Ended)}
	defer s.outstanding.done()
	if err := c.addEnvironment(ctx, r.Environment); err != nil {
		return nil, err
	}
	prestarted := c.claimPrestarted(s.thread)
	defer c.hasStarted()
	err = rpc.WhileOverloaded(ctx, c.Conn, func() error {
		t, err = s.anywhere(ctx, prestarted)
		prestarted = "" // for the first attempt only
		return err
	})
	return t, err
}

// anywhere starts the turn in the prestarted thread, if there is one and codex accepts it, and else in a new thread.
func (s *starting) anywhere(ctx context.Context, prestarted string) (*Turn, error) {
	if prestarted != "" {
		if t, err := s.inThread(ctx, prestarted, Usage{}); !isRefused(err) {
			return t, err
		}
	}
	threadID, err := s.newThread(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot start a thread: %w", err)
	}
	return s.inThread(ctx, threadID, Usage{})
}

// inThread injects the request's items into the thread (its earlier turns used the tokens in before) and starts the
// turn.
func (s *starting) inThread(ctx context.Context, threadID string, before Usage) (*Turn, error) {
	t := s.conn.newTurn(threadID, s.request.Tools)
	t.outstanding, t.environment = s.outstanding, s.request.Environment
	s.outstanding.add()
	if s.thread.worthKeeping() {
		t.next = s.thread
	}
	t.transcript.before, t.transcript.total = before, before
	if s.request.Starting != nil {
		s.request.Starting(threadID)
	}
	late, err := s.begin(ctx, t)
	switch {
	case err == nil:
		return t, nil
	case late: // the reply to turn/start is outstanding, and closes the turn
		s.conn.update(func(*state) { t.box.queue.Shut(ErrTurnClosed) })
	default:
		t.next = nil // the attempt after this one has its own
		t.closeAsync(nil)
	}
	return nil, err
}

// newThread starts a thread. codex starts as many at a time as there are processors: it handles the requests of a
// connection in their order, and the turns of the first threads would else begin after the start of the last one.
func (s *starting) newThread(ctx context.Context) (string, error) {
	c, o := s.conn, s.outstanding
	held, err := c.awaitStart(ctx)
	if err != nil {
		return "", err
	}
	if held {
		defer func() { <-c.starts }()
	}
	var resp wire.ThreadStarted
	unsubscribe := func(r rpc.Reply) { // it must not touch resp
		var late wire.ThreadStarted
		if r.Decode(&late) != nil {
			o.done()
			return
		}
		c.unsubscribe(late.Thread.ID, func(rpc.Reply) { o.done() })
	}
	o.add()
	err = c.CallLate(ctx, "thread/start", s.thread.params, &resp, unsubscribe)
	if !errors.As(err, new(*rpc.WaitError)) {
		o.done()
	}
	return resp.Thread.ID, err
}

// awaitStart waits until another thread may start, but not for long. held means that c.starts has a token for it.
func (c *Conn) awaitStart(ctx context.Context) (held bool, err error) {
	select {
	case c.starts <- struct{}{}:
		return true, nil
	default:
	}
	select {
	case c.starts <- struct{}{}:
		return true, nil
	case <-time.After(c.opts.SlowStart):
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case <-c.Done():
		return false, c.Err()
	}
}

// begin sends thread/inject_items and turn/start together, as codex handles the requests of a connection in order, and
// repeats those that codex is too busy for. late means that the reply to turn/start is outstanding.
func (s *starting) begin(ctx context.Context, t *Turn) (late bool, err error) {
	var missed error
	injected := false
	err = rpc.WhileOverloaded(ctx, s.conn.Conn, func() error {
		inject, start, err := s.send(ctx, t.threadID, !injected)
		if err != nil {
			return err
		}
		if !injected {
			missed = s.conn.Await(ctx, inject, nil, nil)
			injected = missed == nil
		}
		err = s.await(ctx, t, start)
		late = errors.As(err, new(*rpc.WaitError))
		if injected || rpc.IsOverloaded(missed) && rpc.IsOverloaded(err) {
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
func (s *starting) send(
	ctx context.Context, threadID string, withItems bool,
) (inject, start rpc.Request, err error) {
	c, r := s.conn, &s.request
	var requests []rpc.Request
	if withItems {
		params := wire.InjectItems{ThreadID: threadID, Items: r.Items}
		inject, err = c.NewRequest(ctx, "thread/inject_items", params)
		requests = append(requests, inject)
	}
	if err == nil {
		start, err = c.NewRequest(ctx, "turn/start", wire.TurnStart{
			ThreadID:     threadID,
			Input:        []struct{}{},
			Effort:       r.Effort,
			Summary:      r.Summary,
			OutputSchema: r.OutputSchema,
		})
		requests = append(requests, start)
	}
	if err != nil {
		c.Cancel(requests...)
		return inject, start, err
	}
	return inject, start, c.Send(ctx, requests...)
}

// await waits for the reply to turn/start. If ctx ends first, the reply closes the turn.
func (s *starting) await(ctx context.Context, t *Turn, start rpc.Request) error {
	var resp wire.TurnStarted
	if err := s.conn.Await(ctx, start, &resp, t.closeLate); err != nil {
		return fmt.Errorf("cannot start a turn: %w", err)
	}
	s.conn.update(func(*state) { t.box.turnID = resp.Turn.ID })
	return nil
}

// closeLate handles a late reply to turn/start. The reply has the turn's id, which turn/interrupt needs.
func (t *Turn) closeLate(r rpc.Reply) {
	var late wire.TurnStarted
	if r.Decode(&late) == nil {
		t.conn.update(func(*state) { t.box.turnID = late.Turn.ID })
	}
	t.closeAsync(nil)
}

// isRefused reports whether codex will refuse the same request again, for example for a thread that it has unloaded.
func isRefused(err error) bool {
	var e *rpc.Error
	return errors.As(err, &e) && e.Code != rpc.CodeOverloaded && !e.ShuttingDown()
}
