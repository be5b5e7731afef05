package turn

import (
	"context"
	"errors"
	"time"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/rpc"
	"codex-proxy/codex/turnerror"
)

// closeTimeout bounds the call that closes a turn.
const closeTimeout = 2 * time.Second

// start starts the turn, in a kept thread or in a new one. After an error codex may still be
// at work on it; the place on the worker is free when codex has ended that.
func (t *run) start(ctx context.Context) (turn *appserver.Turn, err error) {
	next, err := awaitStart(ctx, t.Starts)
	if err != nil {
		return nil, err
	}
	defer next()
	ctx, cancel := context.WithTimeoutCause(ctx, t.StartTimeout, ErrStartTimeout)
	defer cancel()
	if trace, ok := t.span.Context(); ok {
		ctx = rpc.WithTrace(ctx, rpc.Trace(trace))
	}
	reuse := "hit"
	known, thread := t.continuation.acquire(t.lease.Conn)
	if thread != nil {
		turn, err = thread.StartTurn(ctx, t.from(known))
	}
	if thread == nil || refused(err) {
		reuse = "miss"
		turn, err = t.lease.Conn.StartTurn(ctx, t.from(0))
	}
	t.metrics.reuse.WithLabelValues(reuse).Inc()
	if err == nil {
		t.lease.Decoded() // codex decodes images before it answers thread/inject_items
	}
	return turn, err
}

// awaitStart waits until no other turn of the request starts: starts has room for one. next lets the next one
// start.
func awaitStart(ctx context.Context, starts chan struct{}) (next func(), err error) {
	if starts == nil {
		return func() {}, nil
	}
	select {
	case starts <- struct{}{}:
		return func() { <-starts }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// from is the request without its first known items.
func (t *run) from(known int) appserver.TurnRequest {
	rest := *t.Turn
	rest.Items = rest.Items[known:]
	t.lease.Bind(&rest, t.ID)
	if t.Fit != nil {
		rest.Items = t.Fit(t.Report.Worker, rest.Items)
	}
	return rest
}

// refused reports whether a turn was refused on a thread, and may start on another one.
func refused(err error) bool {
	var refusal *rpc.Error
	return errors.Is(err, appserver.ErrEnvironment) || errors.As(err, &refusal) && lossReason(err) == ""
}

// closeTurn interrupts the turn if it still runs, also after ctx has ended. A turn that failed
// may run on another account, which does not wait for this worker.
func closeTurn(ctx context.Context, turn *appserver.Turn, err error) {
	var failed *turnerror.Error
	if errors.As(err, &failed) {
		turn.Leave()
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	_ = turn.Close(ctx) // an error here is the connection's, which the worker reports
}
