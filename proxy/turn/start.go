package turn

import (
	"context"
	"errors"
	"time"

	"codex-proxy/codex/appserver"
)

// closeTimeout bounds the call that closes a turn.
const closeTimeout = 2 * time.Second

// start starts the turn. After an error codex may still be at work on it; the place on
// the worker is free when codex has ended that.
func (t *run) start(ctx context.Context) (*appserver.Turn, error) {
	release := t.lease.Hold() // for the images of a thread that codex refuses
	defer release()
	next, err := t.awaitStart(ctx)
	if err != nil {
		return nil, err
	}
	turn, err := t.startTurn(ctx)
	next()
	if err == nil {
		t.lease.Decoded() // codex decodes images before it answers thread/inject_items
	}
	return turn, err
}

// awaitStart waits until no other turn of the request starts. next lets the next one
// start.
func (t *run) awaitStart(ctx context.Context) (next func(), err error) {
	if t.Starts == nil {
		return func() {}, nil
	}
	select {
	case t.Starts <- struct{}{}:
		return func() { <-t.Starts }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// startTurn continues a kept thread, or starts one.
func (t *run) startTurn(ctx context.Context) (*appserver.Turn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, t.StartTimeout, ErrStartTimeout)
	defer cancel()
	if trace, ok := t.span.Context(); ok {
		ctx = appserver.WithTrace(ctx, appserver.Trace(trace))
	}
	if known, thread := t.continuation.acquire(t.lease.Conn); thread != nil {
		turn, err := thread.StartTurn(ctx, t.from(known))
		if !refused(err) {
			t.metrics.reuse.WithLabelValues("hit").Inc()
			return turn, err
		}
	}
	t.metrics.reuse.WithLabelValues("miss").Inc()
	return t.lease.Conn.StartTurn(ctx, t.from(0))
}

// from is the request without its first known items.
func (t *run) from(known int) appserver.TurnRequest {
	rest := *t.Turn
	rest.Items, rest.Ended = rest.Items[known:], t.lease.Hold()
	rest.Starting = t.annotate
	if t.Fit != nil {
		rest.Items = t.Fit(t.Report.Worker, rest.Items)
	}
	return rest
}

// annotate names the request in the thread's journal lines.
func (t *run) annotate(thread string) { t.lease.Annotate(thread, t.ID) }

// refused reports whether codex refused a turn on a thread that it may start on
// another one.
func refused(err error) bool {
	var rpc *appserver.RPCError
	return errors.As(err, &rpc) && lossReason(err) == ""
}

// closeTurn interrupts the turn if it still runs, also after ctx has ended. A turn that failed
// may run on another account, which does not wait for this worker.
func closeTurn(ctx context.Context, turn *appserver.Turn, err error) {
	var failed *appserver.TurnError
	if errors.As(err, &failed) {
		turn.Leave()
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	_ = turn.Close(ctx) // an error here is the connection's, which the worker reports
}
